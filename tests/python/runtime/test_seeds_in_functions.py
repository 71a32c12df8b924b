"""`paddle.seed()` inside of a function: in front of the random numbers of its graph, or behind them."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def at_the_start(x):
    paddle.seed(3)
    return x + paddle.rand([2])


def at_the_end(x):
    y = x + paddle.rand([2])
    paddle.seed(5)
    return y


def several_times(x):
    paddle.seed(3)
    paddle.seed(seed=7)
    y = x * paddle.rand([2]) + paddle.randn([2])
    paddle.seed(5)
    paddle.seed(6)
    return y


def without_random_numbers(x):
    paddle.seed(11)
    return x * 2


def between_other_operations(x):
    y = x.exp()
    paddle.seed(4)
    return paddle.nn.functional.dropout(y, 0.5) + y


def in_a_callee(x):
    return at_the_start(x) * 2


def beside_a_line(x):
    print("begins")
    paddle.seed(2)
    print("goes on")
    return x + paddle.uniform([2])


ONE = (
    at_the_start,
    at_the_end,
    several_times,
    without_random_numbers,
    between_other_operations,
    in_a_callee,
    beside_a_line,
)


def outcome(function, state, *args):
    paddle.seed(state)
    paddle.rand([3])
    x = paddle.to_tensor([1.0, 2.0])
    made = function(x, *args)
    # What is drawn afterwards, too.
    return made.tolist(), paddle.rand([2]).tolist()


@pytest.mark.parametrize("backend", ["paddle", "eager"])
@pytest.mark.parametrize("function", ONE)
def test_one_graph(function, backend):
    compiled = translate(function, full_graph=True, backend=backend)
    for state in (1, 2, 3):
        assert outcome(compiled, state) == outcome(function, state)
    stats = sot.stats(compiled)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def on_both_sides(x):
    y = x + paddle.rand([2])
    paddle.seed(5)
    return y + paddle.rand([2])


def test_random_numbers_on_both_sides_are_two_graphs():
    compiled = translate(on_both_sides)
    for state in (1, 2, 3):
        assert outcome(compiled, state) == outcome(on_both_sides, state)
    stats = sot.stats(compiled)
    assert stats.graphs == 2 and sum(it.count for it in stats.graph_breaks) == 1
    whole = translate(on_both_sides, full_graph=True)
    with pytest.raises(sot.GraphBreakError, match="in front of all of them, or behind"):
        outcome(whole, 1)


def test_other_numbers():
    def f(x, number):
        paddle.seed(number)
        return x + paddle.rand([2])

    compiled = translate(f)
    for number in (3, 4, 3, 5, 6, 7, 8, 3):
        assert outcome(compiled, 1, number) == outcome(f, 1, number)


def test_the_generator_that_it_answers_with():
    def f(x):
        generator = paddle.seed(9)
        y = x + paddle.rand([2])
        return y, generator.initial_seed()

    compiled = translate(f)
    x = paddle.ones([2])
    for _ in range(3):
        (one, seed), (other, number) = compiled(x), f(x)
        assert one.tolist() == other.tolist() and seed == number == 9


def test_in_a_branch():
    def f(x):
        if x.sum() > 0:
            paddle.seed(9)
        return x + paddle.rand([2])

    compiled = translate(f, capture_control_flow=True)
    for data in ([1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]):
        x = paddle.to_tensor(data)
        paddle.seed(1)
        expected = f(x).tolist(), paddle.rand([2]).tolist()
        paddle.seed(1)
        assert (compiled(x).tolist(), paddle.rand([2]).tolist()) == expected


def test_a_graph_that_fails_draws_from_where_it_was():
    def f(x, n):
        y = paddle.rand([2])
        if n is not None:
            y = x
            paddle.seed(3)
            y = y + paddle.rand([2])
            if n >= 3:
                raise ValueError
        return y

    def g(x, n):
        paddle.seed(3)
        y = x + paddle.rand([2])
        if n >= 3:
            raise ValueError
        return y

    for function in (f, g):
        compiled = translate(function, capture_control_flow=True)
        for n in (1, 5, 2):
            seen = []
            for run in (function, compiled):
                paddle.seed(1)
                try:
                    seen.append(run(paddle.ones([2]), paddle.to_tensor(n)).tolist())
                except ValueError:
                    seen.append("raised")
                seen[-1] = seen[-1], paddle.rand([2]).tolist()
            assert seen[0] == seen[1]


def test_exports(tmp_path):
    spec = [InputSpec([None, 2], "float32")]
    sot.save(without_random_numbers, str(tmp_path / "f"), input_spec=spec)
    assert paddle.jit.load(str(tmp_path / "f"))(paddle.ones([3, 2])).tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(sot.GraphBreakError, match=r"call paddle.seed\(\) where the program is called"):
        sot.save(at_the_start, str(tmp_path / "g"), input_spec=spec)
    assert not (tmp_path / "g.json").exists()
    with pytest.raises(sot.GraphBreakError, match="changes something that exists"):
        sot.freeze(without_random_numbers, [[paddle.ones([2])]])
