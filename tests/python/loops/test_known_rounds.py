"""Loops on tensors whose number of rounds is the same in each call: they are unrolled where no operation holds them."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

DATA = ([1.0, 2.0], [-1.0, -2.0], [0.5, -0.25])
w = paddle.to_tensor([0.5, -1.0], stop_gradient=False)


def grows_in_a_while(x, rounds):
    out, i = [x], paddle.to_tensor(0)
    while i < rounds:
        out.append(out[-1] * w * (i + 1).astype("float32"))
        i += 1
    return paddle.stack(out), out[-1], i, len(out)


def grows_in_a_for(x, rounds):
    out = []
    for i in range(paddle.to_tensor(rounds)):
        out.append(x * w + i)
    return out, len(out)


def grows_by_what_is_drawn(x, rounds):
    out = [x]
    for _ in range(paddle.to_tensor(rounds)):
        out.append(x * w + paddle.rand([2]))
    return paddle.concat(out)


def items_go(x, rounds):
    left, i = [x, x * w, x + 1, x - 1, x], paddle.full([], 0, "int64")
    while i < rounds:
        x = x + left.pop()
        i = i + 1
    return x, len(left)


def the_rank_grows(x, rounds):
    x, i = x * w, paddle.to_tensor(0)
    while i < rounds:
        x = x.unsqueeze(0)
        i = i + 1
    return x


def a_dict_grows(x, rounds):
    made = {}
    for i in range(paddle.to_tensor(rounds)):
        made[f"row{len(made)}"] = x * i
    return made


def left_early(x, rounds):
    out, i = [x], paddle.to_tensor(0)
    while i < 7:
        if i >= rounds:
            break
        out.append(out[-1] * w)
        i += 1
    else:
        out.append(x)
    return paddle.stack(out)


def loops_in_loops(x, rounds):
    out = []
    for i in range(paddle.to_tensor(rounds)):
        j = paddle.to_tensor(0)
        while j < i:
            out.append(x * w + i)
            j += 1
    return out


def changed_in_place(x, rounds):
    y, i = x * 2, paddle.zeros([])
    while i < rounds:
        y.add_(x)
        i = i + 1
    return y, i


def other_in_the_first_round(x, rounds):
    first, y = True, None
    for _ in range(paddle.to_tensor(rounds)):
        y, first = (x.unsqueeze(0), False) if first else (y * w, first)
    return y


FUNCTIONS = (
    grows_in_a_while,
    grows_in_a_for,
    grows_by_what_is_drawn,
    items_go,
    the_rank_grows,
    a_dict_grows,
    left_early,
    loops_in_loops,
    changed_in_place,
    other_in_the_first_round,
)


def outcome(function, data, rounds):
    paddle.seed(11)
    w.clear_gradient()
    x = paddle.to_tensor(data, stop_gradient=False)
    made = function(x, rounds)
    parts = [part for part in paddle.utils.flatten(made) if isinstance(part, paddle.Tensor)]
    flows = [part for part in parts if not part.stop_gradient]
    if flows:
        paddle.add_n([part.sum() for part in flows]).backward()
    grads = [None if tensor.grad is None else tensor.grad.numpy().tolist() for tensor in (x, w)]
    numbers = [part for part in paddle.utils.flatten(made) if not isinstance(part, paddle.Tensor)]
    return [(part.numpy().tolist(), part.stop_gradient, str(part.dtype)) for part in parts], numbers, grads


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_known_rounds_are_one_graph(function, rounds):
    compiled = translate(function, full_graph=True, capture_control_flow=True)
    for data in DATA:
        assert outcome(compiled, data, rounds) == outcome(function, data, rounds)
    stats = sot.stats(compiled)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_lines_are_printed_once(capsys):
    def prints(x):
        out = []
        for _ in range(paddle.to_tensor(3)):
            print("round", len(out))
            out.append(x)
        return paddle.stack(out)

    compiled = translate(prints, full_graph=True, capture_control_flow=True)
    x = paddle.to_tensor(DATA[0])
    for _ in range(2):
        assert compiled(x).tolist() == [DATA[0]] * 3
        assert capsys.readouterr().out == "round 0\nround 1\nround 2\n"


@pytest.mark.parametrize("start", ["paddle.to_tensor(0)", "x.sum().astype('int64')", "paddle.randint(0, 2, [])"])
def test_rounds_that_differ_are_a_loop(start):
    names = {"paddle": paddle}
    lines = ["def f(x):", " out = [x]", f" i = {start}", " while i < 3:", "  out.append(x + i)", "  i += 1"]
    exec("\n".join([*lines, " return paddle.stack(out)"]), names)  # noqa: S102
    compiled = translate(names["f"], full_graph=True, capture_control_flow=True)
    x = paddle.to_tensor([1.0, 1.0])
    if start == "paddle.to_tensor(0)":
        assert compiled(x).tolist() == names["f"](x).tolist()
    elif "randint" in start:
        paddle.seed(5)
        expected = names["f"](x)
        paddle.seed(5)
        assert compiled(x).tolist() == expected.tolist()
    else:
        assert compiled(x).tolist() == names["f"](x).tolist()


def grows_to(rounds):
    def f(x):
        out, i = [], paddle.to_tensor(0)
        while i < rounds:
            out.append(x + i)
            i += 1
        return out

    return f


@pytest.mark.parametrize("rounds", [40, 700])
def test_a_loop_is_asked_once_for_many_rounds(rounds):
    f = grows_to(rounds)
    whole = translate(f, full_graph=True, capture_control_flow=True)
    x = paddle.ones([2])
    for _ in range(2):
        assert [part.tolist() for part in whole(x)] == [part.tolist() for part in f(x)]
    stats = sot.stats(whole)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def rounds_of(x, n, out):
    i = paddle.to_tensor(0)
    while i < n:
        x = x * w
        if out is not None:
            out.append(x)
        i += 1
    return x


def test_a_loop_that_was_refused_is_captured_where_its_frame_is_another():
    def f(x, n):
        made = []
        for lst in (made, None, made, None):
            rounds = paddle.to_tensor(2) if lst is not None else n
            x = rounds_of(x, rounds, lst)
        return x, made

    whole = translate(f, full_graph=True, capture_control_flow=True)
    with paddle.no_grad():
        for n in (0, 1, 6):
            x, n = paddle.to_tensor([1.0, 3.0]), paddle.to_tensor(n)
            (one, many), (other, others) = whole(x, n), f(x, n)
            assert one.tolist() == other.tolist() and [it.tolist() for it in many] == [it.tolist() for it in others]
    stats = sot.stats(whole)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_numbers_that_change_in_place_are_known_as_they_are():
    def f(x):
        out, i = [], paddle.to_tensor(0)
        while i < 6:
            out.append(x + i)
            j = i
            i.add_(paddle.to_tensor(1))
            if j >= 4:
                break
        return out, i

    whole = translate(f, full_graph=True, capture_control_flow=True)
    x = paddle.ones([2])
    (one, i), (other, j) = whole(x), f(x)
    assert [it.tolist() for it in one] == [it.tolist() for it in other] and i.item() == j.item()


@pytest.mark.parametrize("rounds", [1, 3])
def test_exported(tmp_path, rounds):
    def f(x):
        return grows_in_a_while(x, rounds)[0]

    sot.save(f, str(tmp_path / "f"), input_spec=[InputSpec([None, 2], "float32")])
    loaded = paddle.jit.load(str(tmp_path / "f"))
    for size in (1, 2, 5):
        x = paddle.rand([size, 2])
        np.testing.assert_array_equal(loaded(x).numpy(), f(x).numpy())
