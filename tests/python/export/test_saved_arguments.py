"""What `save` is given: partials, callable objects, containers of their own kind, flags; and what it leaves behind."""

import collections
import functools
import logging
import threading
from typing import Any, NamedTuple

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

ROWS = InputSpec([None, 4])


class Pair(NamedTuple):
    p: Any
    n: Any


class Tripled:
    def __call__(self, x):
        return x * 3


def add(x, k):
    return x + k


def of_a_tuple(xs):
    return xs[0] + 1 if isinstance(xs, tuple) else xs[0] - 1


def of_a_pair(pair):
    return pair.n - pair.p * 2 if isinstance(pair, Pair) else pair[0]


def of_an_ordered_dict(d):
    return d["a"] * 2 if isinstance(d, collections.OrderedDict) else -d["a"]


def of_a_dict(d):
    return d["b"] - d["a"]["z"] * 2 + d["a"]["y"]


def by_a_flag(x, flag):
    return x * 2 if flag else x - 1


def X():
    return paddle.arange(8, dtype="float32").reshape([2, 4])


CASES = {
    "partial": (functools.partial(add, k=2), [ROWS], [X()], [X()]),
    "translated partial": (sot.to_static(functools.partial(add, k=2)), [ROWS], [X()], [X()]),
    "callable": (Tripled(), [ROWS], [X()], [X()]),
    "tuple": (of_a_tuple, [(ROWS,)], [(X(),)], [X()]),
    "named tuple": (of_a_pair, [Pair(ROWS, ROWS)], [Pair(X(), X() + 1)], [X(), X() + 1]),
    "ordered dict": (of_an_ordered_dict, [collections.OrderedDict(a=ROWS)], [collections.OrderedDict(a=X())], [X()]),
    # As `paddle.jit.save` does: in the order of their keys, not in that of the dict.
    "dict": (
        of_a_dict,
        [{"b": ROWS, "a": {"z": ROWS, "y": ROWS}}],
        [{"b": X(), "a": {"z": X() + 1, "y": X() + 2}}],
        [X() + 2, X() + 1, X()],
    ),
    "flag": (
        by_a_flag,
        [ROWS, InputSpec([], "bool", "flag")],
        [X(), paddle.to_tensor(False)],
        [X(), paddle.to_tensor(False)],
    ),
    "whole number": (
        by_a_flag,
        [ROWS, InputSpec([1], "int64", "flag")],
        [X(), paddle.to_tensor([2])],
        [X(), paddle.to_tensor([2])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_loaded_answers_as_eager_mode(name, tmp_path):
    function, spec, args, flat = CASES[name]
    sot.save(function, tmp_path / "saved", spec)
    loaded = paddle.jit.load(str(tmp_path / "saved"))
    assert loaded(*flat).tolist() == function(*args).tolist()


def test_no_number_is_refused(tmp_path):
    def masked(x):
        return paddle.where(x > 0, x, paddle.to_tensor(float("nan")))

    with pytest.raises(ValueError, match="layer_or_fn: a constant that is no number"):
        sot.save(masked, tmp_path / "saved", [ROWS])
    assert list(tmp_path.iterdir()) == []


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)

    def extra(self, x):
        return self.linear(x) * 2


def test_over_an_older_program(tmp_path, caplog):
    path = tmp_path / "saved"
    sot.save(Net(), path, {"forward": [ROWS], "extra": [ROWS]})
    with caplog.at_level(logging.WARNING, logger="paddle_sot_rs.jit"):
        sot.save(functools.partial(add, k=1), path, [ROWS])
    assert "saved.extra.json as further methods" in caplog.text
    assert not (tmp_path / "saved.pdiparams").exists() and (tmp_path / "saved.extra.pdiparams").exists()
    assert paddle.jit.load(str(path))(X()).tolist() == (X() + 1).tolist()


class Codec(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return self.encode(x).tanh()

    def encode(self, x):
        return self.inner(x)

    @sot.to_static(input_spec=[ROWS])
    def decode(self, x):
        return x - 1


class Encoder(Codec):
    def decode(self, x):
        return x + 1


def files(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("kind", [Codec, Encoder])
def test_methods_that_are_translated_on_the_layer(kind, tmp_path):
    net = kind()
    net.encode = sot.to_static(net.encode, input_spec=[ROWS])
    net.forward = sot.to_static(net.forward, input_spec=[ROWS])
    # Not a method of the class: Paddle leaves such functions out, too.
    net.helper = sot.to_static(lambda x: x * 2)
    sot.save(net, tmp_path / "net")
    methods = ["decode", "encode"] if kind is Codec else ["encode"]
    assert files(tmp_path) == sorted(
        ["net.json", "net.pdiparams", "net.pdiparams.info", "net.encode.pdiparams"]
        + [f"net.{name}.json" for name in methods]
    )
    loaded = paddle.jit.load(str(tmp_path / "net"))
    assert not hasattr(loaded, "helper")
    for name in ["forward", *methods]:
        assert getattr(loaded, name)(X()).tolist() == getattr(net, name)(X()).tolist()


def test_a_translated_method_needs_a_specification(tmp_path):
    net = Codec()
    net.encode = sot.to_static(net.encode)
    with pytest.raises(ValueError, match="missing for encode"):
        sot.save(net, tmp_path / "net", [ROWS])
    assert files(tmp_path) == []


def test_parameters_without_numbers_are_refused(tmp_path):
    with paddle.LazyGuard():
        net = nn.Linear(4, 2)
    with pytest.raises(ValueError, match="has no numbers yet"):
        sot.save(net, str(tmp_path / "m"), input_spec=[ROWS])
    assert list(tmp_path.iterdir()) == []
    for parameter in net.parameters():
        parameter.initialize()
    sot.save(net, str(tmp_path / "m"), input_spec=[ROWS])
    np.testing.assert_allclose(paddle.jit.load(str(tmp_path / "m"))(X()).numpy(), net(X()).numpy(), rtol=1e-5)


def test_several_threads_at_once(tmp_path):
    """Paddle has one current program for all threads."""
    nets, failed, modes = [nn.Linear(4, 2) for _ in range(3)], [], []

    def save(number):
        try:
            modes.append(paddle.in_dynamic_mode())
            for _ in range(3):
                sot.save(nets[number], str(tmp_path / str(number) / "m"), input_spec=[ROWS])
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and all(modes)
    for number, net in enumerate(nets):
        loaded = paddle.jit.load(str(tmp_path / str(number) / "m"))
        np.testing.assert_allclose(loaded(X()).numpy(), net(X()).numpy(), rtol=1e-5)


def test_a_file_is_loaded_when_no_other_thread_builds_a_program(tmp_path):
    prefix, net, found = str(tmp_path / "m"), nn.Linear(4, 2), []
    sot.save(net, prefix, input_spec=[ROWS])
    from paddle_sot_rs._paddle.static_mode import alone_in_static_mode

    thread = threading.Thread(target=lambda: found.append(paddle.jit.load(prefix)(X())))
    with alone_in_static_mode():
        thread.start()
        thread.join(0.5)
        assert thread.is_alive() and not found
    thread.join()
    np.testing.assert_allclose(found[0].numpy(), net(X()).numpy(), rtol=1e-5)
