"""The option `check`: each call is compared with plain Python, and the program sees nothing of it."""

import random
import warnings

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs._reproduce.checking import DifferenceWarning

pytestmark = pytest.mark.default_python
X = paddle.linspace(1, 2, 6).reshape([2, 3])
LOG = []


def quiet(function, *args, **options):
    """Three checked calls that must not warn; the result of the last one."""
    translated = sot.to_static(function, check=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DifferenceWarning)
        return [translated(*args) for _ in range(3)][-1]


def warned(function, *args, **options):
    with pytest.warns(DifferenceWarning) as seen:
        sot.to_static(function, check=True, **options)(*args)
    [warning] = [it for it in seen if it.category is DifferenceWarning]
    assert warning.filename == __file__ and "python -m paddle_sot_rs minify" in str(warning.message)
    return str(warning.message)


def test_another_result():
    def f(x):
        return x * 3 if sot.is_compiling() else x

    assert "differs from plain Python: result" in warned(f, X)


def test_another_argument():
    def f(x, seen):
        seen.append(sot.is_compiling())
        return x + 1

    assert "differs from plain Python: arguments" in warned(f, X, [])


def test_another_object_of_the_module():
    def f(x):
        LOG.append(sot.is_compiling())
        return x + 1

    LOG.clear()
    assert "differs from plain Python: state" in warned(f, X)
    assert LOG == [True]


def test_another_exception():
    def f(x):
        if sot.is_compiling():
            raise ValueError("a")
        raise KeyError("a")

    with pytest.raises(ValueError, match="a"), pytest.warns(DifferenceWarning, match="result"):
        sot.to_static(f, check=True)(X)


def test_another_gradient():
    def f(x):
        y = x * 2
        if sot.is_compiling():
            return y.detach() + x - x
        return y

    x = paddle.ones([2])
    x.stop_gradient = False
    assert "differs from plain Python: " in warned(f, x)
    assert x.grad is None


def test_other_random_numbers():
    def f(x):
        if sot.is_compiling():
            paddle.rand([2])
        return x + 1

    assert "random numbers" in warned(f, X)


def test_the_program_sees_nothing():
    net = paddle.nn.Sequential(paddle.nn.Linear(3, 3), paddle.nn.BatchNorm1D(3), paddle.nn.Dropout(0.5))

    def f(x, seen):
        seen.append(len(seen))
        print("printed")
        return net(x) + random.random() + float(np.random.random())

    def outcome(check):
        random.seed(1), np.random.seed(1), paddle.seed(1)
        for part in net.sublayers():
            if isinstance(part, paddle.nn.BatchNorm1D):
                part._mean.zero_()
                part._variance.fill_(1.0)
        x, seen = paddle.to_tensor(X.numpy(), stop_gradient=False), []
        run = sot.to_static(lambda x, seen: f(x, seen), check=check)
        results = [run(x, seen) for _ in range(2)]
        results[-1].sum().backward()
        parts = [x.grad, *results, *net.state_dict().values(), *(it.grad for it in net.parameters())]
        net.clear_gradients()
        drawn = random.random(), np.random.random(), paddle.rand([]).item()
        return [None if part is None else part.numpy().tolist() for part in parts], seen, drawn, sot.stats(run).graphs

    with warnings.catch_warnings():
        warnings.simplefilter("error", DifferenceWarning)
        checked = outcome(True)
    assert checked == outcome(False)


def test_output_appears_once(capfd):
    def f(x):
        print("once")
        return x + 1

    quiet(f, X)
    assert capfd.readouterr().out.count("once") == 3


def test_files_are_written_once(tmp_path):
    path = tmp_path / "log"

    def f(x):
        with open(path, "a") as file:
            file.write("line\n")
        return x + 1

    quiet(f, X)
    assert path.read_text() == "line\n" * 3


def test_what_is_not_the_same_twice_is_not_told():
    import time

    def f(x):
        return x + time.perf_counter_ns() % 1000

    quiet(f, X)


def test_calls_inside_of_calls():
    @sot.to_static(check=True)
    def inner(x):
        LOG.append(1)
        return x * 2

    def f(x):
        return sorted([1, 2], key=lambda _: float(inner(x).sum())), inner(x)

    LOG.clear()
    quiet(f, X)
    assert len(LOG) == 9


def test_the_setting(monkeypatch):
    def f(x):
        return x * 3 if sot.is_compiling() else x

    with sot.config(check=True), pytest.warns(DifferenceWarning):
        sot.to_static(f)(X)
    monkeypatch.setenv("PADDLE_SOT_CHECK", "1")
    with pytest.warns(DifferenceWarning):
        sot.to_static(f, min_graph_size=0)(X)
