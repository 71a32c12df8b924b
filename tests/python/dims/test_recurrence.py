"""Behind three translations that differ in sizes alone, one is made for sizes that come again."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import apart
from paddle_sot_rs.report import at_once

pytestmark = pytest.mark.default_python

LENGTHS = range(2, 12)


def rounds(x):
    state = paddle.zeros([x.shape[1]])
    for i in range(x.shape[0]):
        state = (state + x[i]).tanh() * 0.5
    return state


def equal(found, wanted):
    assert found.shape == wanted.shape and found.numpy().tobytes() == wanted.numpy().tobytes()


def translated(function=rounds, **settings):
    return sot.to_static(apart(function), **settings)


def new_sizes(function):
    return [reason.count for reason in sot.stats(function).fallbacks if reason.id == "PSR0807"]


@pytest.mark.parametrize("settings", [{}, {"min_graph_size": 0}], ids=["default", "any size"])
def test_what_comes_once_is_not_translated(settings):
    call = translated(**settings)
    for length in LENGTHS:
        x = paddle.randn([length, 4])
        equal(call(x), rounds(x))
    assert (sot.stats(call).translations, new_sizes(call)) == (3, [7])
    for length in LENGTHS:
        x = paddle.randn([length, 4])
        equal(call(x), rounds(x))
    record = sot.stats(call)
    assert (record.translations, record.graphs, record.graph_breaks, new_sizes(call)) == (10, 10, [], [7])


def test_training():
    call = translated(min_graph_size=0)
    for length in [*LENGTHS, *LENGTHS]:
        grads = []
        for function in (rounds, call):
            paddle.seed(length)
            x = paddle.randn([length, 4])
            x.stop_gradient = False
            function(x).sum().backward()
            grads.append(x.grad)
        equal(*grads)
    assert (sot.stats(call).translations, new_sizes(call)) == (10, [7])


def test_nine_in_a_row_are_a_translation():
    """Ways through branches come again with other sizes."""

    def ways(x):
        n, steps = x.shape[0], 0
        while n > 1:
            n, steps = n // 2, steps + 1
        return x * steps

    call = translated(ways, min_graph_size=0)
    for length in range(2, 24):
        x = paddle.randn([length, 3])
        equal(call(x), ways(x))
    # One way is met in the calls of 2 and of 3, which are open then; the next ones of 4 and of 17.
    record = sot.stats(call)
    assert record.graph_breaks == []
    assert (record.translations, new_sizes(call)) == (4, [8])


@pytest.mark.parametrize(
    "settings",
    [{"full_graph": True}, {"dynamic": False}, {"compile_at_call": 1}],
    ids=["one graph", "known dims", "at once"],
)
def test_who_asks_for_programs_has_them(settings):
    call = translated(min_graph_size=0, **settings)
    for length in LENGTHS:
        x = paddle.randn([length, 4])
        equal(call(x), rounds(x))
    record = sot.stats(call)
    assert record.translations == (2 if "full_graph" in settings else 10)
    assert record.fallbacks == []


def test_what_is_looked_at_is_translated():
    call = translated()
    for length in LENGTHS:
        call(paddle.randn([length, 4]))
    with at_once():
        call(paddle.randn([30, 4]))
    assert (sot.stats(call).translations, new_sizes(call)) == (4, [7])


def test_other_differences_do_not_wait():
    call = translated(min_graph_size=0)
    for dtype in ("float32", "float64"):
        for length in (2, 3, 4):
            x = paddle.randn([length, 4], dtype)
            equal(call(x.astype("float32")), rounds(x.astype("float32")))
    assert (sot.stats(call).translations, new_sizes(call)) == (3, [])

    def scaled(x, by):
        for i in range(x.shape[0] * 0 + by):
            x = x * i
        return x

    call = translated(scaled, min_graph_size=0)
    for by in range(6):
        equal(call(paddle.ones([3]), by), scaled(paddle.ones([3]), by))
    assert new_sizes(call) == []


def test_sizes_in_containers():
    def joined(rows, named):
        total = rows[0].sum() + named["x"].sum()
        for i in range(rows[0].shape[0]):
            total = total * 0.5 + rows[0][i].sum()
        return total

    call = translated(joined, min_graph_size=0)
    for _ in range(2):
        for length in LENGTHS:
            x = paddle.randn([length, 2])
            equal(call([x], {"x": x}), joined([x], {"x": x}))
    assert (sot.stats(call).translations, new_sizes(call)) == (10, [7])


class Cells(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell = paddle.nn.GRUCell(4, 4)
        self.head = paddle.nn.Linear(4, 4)

    def forward(self, x):
        state, found = None, []
        for i in range(x.shape[1]):
            state, _ = self.cell(x[:, i], state)
            found.append(self.head(state))
        return paddle.stack(found, 1)


def test_what_such_calls_call_is_not_translated_by_itself():
    plain = Cells()
    net = Cells()
    net.set_state_dict(plain.state_dict())
    sot.to_static(net)
    for _ in range(2):
        for length in LENGTHS:
            x = paddle.randn([2, length, 4])
            equal(net(x), plain(x))
    assert (sot.stats(net).translations, new_sizes(net)) == (10, [7])


def test_effects_of_calls_that_run_as_they_are():
    seen = []

    def noted(x):
        seen.append(x.shape[0])
        for i in range(x.shape[0]):
            x = x + x[i]
        return x

    call = sot.to_static(noted, min_graph_size=0)
    for length in [*LENGTHS, *LENGTHS]:
        call(paddle.ones([length]))
    assert seen == [*LENGTHS, *LENGTHS]
    assert new_sizes(call) == [7]


def test_reset_forgets_sizes():
    call = translated(min_graph_size=0)
    for _ in range(2):
        for length in LENGTHS:
            call(paddle.randn([length, 4]))
        assert (sot.stats(call).translations, new_sizes(call)) == (3, [7])
        sot.reset(call)
