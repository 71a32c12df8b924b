"""`print` and `assert` in one graph: operators that speak when, and as often as, plain Python does."""

import ctypes
import re

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3])
w = paddle.to_tensor([0.5, 1.0, 2.0], stop_gradient=False)

# Not by statements of this file: pytest rewrites assertions.
SPACE = {"paddle": paddle, "w": w}
exec(
    """
def at_the_end(x):
    print(x)
    print("three", x * 2, "and", 4)
    return x * w

def in_a_branch(x):
    if x.sum() > 0:
        print("positive", x)
    else:
        x = x - 1
        print("negative")
    return x * w

def shapes_in_a_branch(x):
    sizes = [x.shape[0], (1, "two")]
    if x.sum() > 0:
        print("positive", x.shape, sizes, ())
        sizes.append(x.ndim)
        print(sizes, x, x.shape)
        x = x + 1
    return x * w

def nothing_else_in_a_branch(x):
    if x.sum() > 0:
        if x.max() > 2:
            print("large", x)
    return x * w

def in_a_loop(x):
    y, n = x, x.detach().abs().sum()
    while n < 10:
        y, n = y * w, n * 2
        print("round", y)
        if y.max() > 0.5:
            print("above")
    return y

def in_a_range(x):
    for at in range(paddle.to_tensor(3)):
        print("at", at, x)
        x = x * w
    return x

def checked_in_a_branch(x):
    if x.sum() > 0:
        assert x.max() < 3, "too large"
    return x * w

def checked_in_a_loop(x):
    n = x.detach().abs().sum()
    while n < 10:
        assert n > 1
        n = n * 2
        x = x * w
    return x
""",
    SPACE,
)
PRINTS = ["at_the_end", "in_a_branch", "shapes_in_a_branch", "nothing_else_in_a_branch", "in_a_loop", "in_a_range"]
CHECKS = ["checked_in_a_branch", "checked_in_a_loop"]


def spoken(capfd):
    """What was printed: texts and numbers, of tensors as Python shows them and as the operator does."""
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out


def numbers_of(text):
    """The numbers of each tensor printed, in order."""
    found = re.findall(r"(?:data: |\n\s+)\[([^\]]*)\]", text)
    return [[float(number) for number in one.replace(",", " ").split()] for one in found]


def words_of(text):
    return [word for word in re.findall(r"[a-z]+", text) if word in WORDS]


WORDS = {"three", "and", "positive", "negative", "large", "round", "above", "at"}


@pytest.mark.parametrize("name", PRINTS)
@pytest.mark.parametrize("backend", ["paddle", "cinn"])
def test_each_line_once(name, backend, capfd):
    function = SPACE[name]
    static = sot.to_static(function, full_graph=True, min_graph_size=0, backend=backend, dynamic=True)
    static(paddle.to_tensor(DATA[0], stop_gradient=False))
    spoken(capfd)
    for data in (*DATA, *DATA):
        said, grads = [], []
        for run in (function, static):
            w.clear_gradient(set_to_zero=False)
            x = paddle.to_tensor(data, stop_gradient=False)
            run(x).sum().backward()
            grads.append([x.grad.numpy(), w.grad.numpy()])
            said.append(spoken(capfd))
        np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)
        want, got = words_of(said[0]), words_of(said[1])
        assert got == want
        # Numbers of the graph, and a zero in lines without a tensor, have one element.
        shown = [numbers for numbers in numbers_of(said[1]) if len(numbers) == 3]
        np.testing.assert_allclose(shown, numbers_of(said[0]), rtol=1e-5, atol=1e-6)
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


@pytest.mark.parametrize("name", PRINTS)
def test_the_interpreter_prints_where_the_graph_may_break(name, capfd):
    function = SPACE[name]
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for data in (*DATA, *DATA):
        said = []
        for run in (function, static):
            run(paddle.to_tensor(data))
            said.append(spoken(capfd))
        assert said[0] == said[1]


def test_a_saved_program_prints(tmp_path, capfd):
    sot.save(SPACE["in_a_branch"], str(tmp_path / "saved"), input_spec=[InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "saved"))
    for data, word in zip(DATA, ("positive", "negative", "positive"), strict=True):
        spoken(capfd)
        loaded(paddle.to_tensor(data))
        assert words_of(spoken(capfd)) == [word]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("grad", [False, True])
def test_assertions_in_captured_control_flow(name, grad):
    function = SPACE[name]
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    # The last ones fail, each in one of the functions.
    for data in ([0.5, 1.0, 2.0], [-1.0, -2.0, -3.0], [0.4, 0.4, 0.5], [1.0, 2.0, 5.0], [-0.1, 0.1, 0.1]):
        outcomes = []
        for run in (function, static):
            x = paddle.to_tensor(data, stop_gradient=not grad)
            try:
                result = run(x)
                if grad:
                    result.sum().backward()
                outcomes.append([result.numpy().tolist(), None if x.grad is None else x.grad.numpy().tolist()])
            except AssertionError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


SPEAKS_AND_CHECKS = [
    "print('first', x.sum() > 1)\nassert x.sum() > 0, 'no'\nreturn x * 2",
    "print('first', x)\nreturn x * int(6 / x.sum())",
    "if x.sum() < 5:\n    print('small', x)\nassert x.max() > 0\nreturn x * 2",
    "while x.sum() < 20:\n    print('round', x)\n    x = x * 2\n    assert x.sum() > 0\nreturn x",
    "while x.sum() < 20:\n    assert x.sum() > 0\n    print('round', x)\n    x = x * 2 - 2\nreturn x",
    # A variable that gets empty ends the program of a loop.
    "while x.sum() > 2:\n    print('round', x)\n    x = x[1:]\nreturn x",
    "print('first', x)\nwhile x.sum() > 2:\n    x = paddle.masked_select(x, x > 1)\nreturn x",
]


@pytest.mark.parametrize("body", SPEAKS_AND_CHECKS)
def test_no_graph_checks_behind_what_it_prints(body):
    """Where that fails, the interpreter runs the call again, and would print again."""
    lines = "\n    ".join(body.split("\n"))
    space = {"paddle": paddle}
    exec(f"def function(x):\n    {lines}\n", space)
    static = sot.to_static(space["function"], full_graph=True, min_graph_size=0)
    with pytest.raises(sot.GraphBreakError, match="print"):
        static(paddle.to_tensor(DATA[0]))


def test_a_graph_checks_before_it_prints(capfd):
    def function(x):
        if x.sum() < 0:
            raise ValueError("negative")
        print("above", x)
        return x * 2

    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for data in (*DATA, *DATA):
        said = []
        for run in (function, static):
            try:
                run(paddle.to_tensor(data))
            except ValueError as error:
                print(error)
            said.append(words_of(spoken(capfd)))
        assert said[0] == said[1]
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
