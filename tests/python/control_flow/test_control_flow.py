"""Branches and loops on tensors as part of the graph, from byte code alone."""

import functools

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from support import eager_deletion

DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3], [-0.1, -0.1, -0.1], [3.1, 4.2, 5.3])


def flat(value):
    return paddle.utils.flatten(value)


def same(got, want):
    assert len(flat(got)) == len(flat(want))
    for a, b in zip(flat(got), flat(want), strict=True):
        assert type(a) is type(b)
        if isinstance(a, paddle.Tensor):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def gradient(result, x):
    tensors = [value for value in flat(result) if isinstance(value, paddle.Tensor) and not value.stop_gradient]
    if tensors:
        sum(value.astype("float32").sum() for value in tensors).backward()
    return None if x.grad is None else x.grad.numpy()


def same_gradients(got, want):
    assert (got is None) == (want is None)
    if want is not None:
        np.testing.assert_allclose(got, want, rtol=1e-6)


def check(function, *rest, data=DATA, grad=True, **settings):
    """One graph, no breaks, equal to eager in values and gradients, through programs and call by call."""
    for mode in ({"full_graph": True}, {"capture_control_flow": True, "backend": "eager"}):
        static = sot.to_static(function, min_graph_size=0, **mode, **settings)
        for numbers in data:
            x = paddle.to_tensor(numbers, stop_gradient=not grad)
            y = paddle.to_tensor(numbers, stop_gradient=not grad)
            want, got = function(x, *rest), static(y, *rest)
            same(got, want)
            if grad:
                same_gradients(gradient(got, y), gradient(want, x))
        stats = sot.stats(static)
        assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])
    return static


def if_else(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y + 1


def without_else(x):
    if x.mean() > 0:
        x = x * 2
    return x + 1


def early_returns(x):
    if x.sum() > 0:
        return x * 2
    elif x.mean() > -1:
        x = x + 5
    return x * 3


def values_of_branches_in_branches(x):
    if x.sum() > 0:
        y = x
    else:
        z = x + 3
        if z.sum() > 6:
            y = z
        else:
            w = z * 3
            y = w if w.max() > 1 else -w
    return y * 1.5


def ternaries_and_operators(x):
    y = x * 2 if x.sum() > 0 else x * 3
    z = x.sum() > 0 and x.mean() < 10
    w = x.sum() > 5 or x.mean() < -1
    return y, z, w, not (x.sum() > 0)


def mixed_operators(x):
    y = x.sum()
    if (y > 3 and x.max() > 2) or y < -5:
        x = x * 2
    return x


def containers(x):
    first = {"a": x, "b": [x * 2]}
    if x.sum() > 0:
        second = {"a": x + 1, "l": [x, 1], "t": (x, None)}
    else:
        second = {"a": x - 1, "l": [x * 2, 1], "t": (x * 3, None)}
    return first, second


def old_and_new_tuple(x):
    pair = (x, x * 2)
    if x.sum() > 2:
        pair = (x + 1, x * 3)
    a, b = pair
    return a - b


def whole_numbers(x):
    if x.sum() > 0:
        n, flag = 3, True
    else:
        n, flag = 4, False
    return x * n, n + 1, flag, n


def in_a_callee(x):
    def inner(z):
        if z.sum() > 0:
            return z * 2
        return z * 3

    return inner(x) + inner(-x)


def in_an_unrolled_loop(x):
    for i in range(3):
        if x.sum() > 5:
            x = x - i
        else:
            x = x + i
    return x


def break_out_of_an_unrolled_loop(x):
    for i in range(4):
        x = x + 1
        if x.sum() > 12:
            break
        x = x * (i + 1)
    else:
        x = x * 100
    return x


def return_out_of_an_unrolled_loop(x):
    for _ in range(5):
        x = x + 1
        if x.sum() > 12:
            return x * 10
    return x


def while_loop(x):
    while x.sum() < 100:
        x = x * 2 + 1
        if False:
            break
    return x


def counts(x):
    i = 0
    total = paddle.zeros([3])
    while i < x.sum():
        total = total + x
        i += 1
    return total, i


def until(x):
    n = 0
    while True:
        x = x + 1
        n = n + 1
        if x.sum() > 20:
            break
        x = x * 1.5
    return x, n


def two_tests(x):
    i = 0
    h = x
    while i < 3 and h.abs().max() < 10:
        h = h * 1.3 + x
        i += 1
    return h


def match_statement(x):
    match x.sum() > 0:
        case True:
            return x
    return x * 2


def comprehension(x):
    return [v * 2 if v.sum() > 0 else v for v in x]


# pytest rewrites the assertions of its own files.
_space = {}
exec('def asserts(x):\n    assert x.sum() < 1000, "too big"\n    return x * 2\n', _space)
asserts = _space["asserts"]


BRANCHES = [
    if_else,
    without_else,
    early_returns,
    values_of_branches_in_branches,
    ternaries_and_operators,
    mixed_operators,
    containers,
    old_and_new_tuple,
    whole_numbers,
    in_a_callee,
    in_an_unrolled_loop,
    break_out_of_an_unrolled_loop,
    return_out_of_an_unrolled_loop,
    comprehension,
    asserts,
]


@pytest.mark.parametrize("function", BRANCHES, ids=lambda f: f.__name__)
def test_branches(function):
    check(function)


@pytest.mark.parametrize("function", [counts, until, two_tests], ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [True, False])
def test_loops(function, grad):
    check(function, grad=grad)


def test_a_loop_that_grows():
    check(while_loop, data=DATA[:1] + DATA[2:3], grad=False)


def over_a_range(x, n):
    total = x * 0
    for i in range(n):
        total = total + x * i
    return total


def over_a_range_with_a_step(x, n):
    total, last = x * 0, 0
    for i in range(1, n, 2):
        total = total + x + i
        last = i
    return total, last


@pytest.mark.parametrize("function", [over_a_range, over_a_range_with_a_step], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_range_of_a_tensor(function, n):
    check(function, paddle.to_tensor(n))


def continues(x):
    s = x * 0
    while x.sum() > 0:
        x = x - 1
        if x.max() > 2:
            s = s + x
            continue
        s = s + 1
    return s


def nested_loops(x):
    i = x.sum() * 0
    while i < 3:
        j = i * 0
        while j < i:
            x = x + j
            j = j + 1
        i = i + 1
    return x


@pytest.mark.parametrize("function", [continues, nested_loops], ids=lambda f: f.__name__)
def test_control_flow_in_loops(function):
    check(function)


scale = paddle.to_tensor([0.5, 0.7, 0.9], stop_gradient=False)


def with_a_parameter(x):
    rounds = 0
    while x.abs().sum() < 50 and rounds < 20:
        x = x * scale + x * x.abs().sqrt() + scale
        rounds = rounds + 1
    return x


def two_variables(x):
    a, b = x, x * scale
    while (a + b).abs().sum() < 100:
        a, b = a + b.sin(), b * 1.5 + a + 1
    return a * b


def loop_in_a_branch(x):
    y = x * scale
    if x.sum() > 0:
        while y.sum() < 30:
            y = y * 1.7 + x
    else:
        y = y - x
    return y * 2


def branch_in_a_loop(x):
    y = x
    while y.abs().sum() < 30:
        if y.sum() > 0:
            y = y * scale + y.exp().clip(max=20.0)
        else:
            y = y * 3 - scale
    return y


def some_without_gradients(x):
    y, seen = x, x.detach()
    while seen.abs().sum() < 30:
        y, seen = y * seen.tanh() + scale, seen * 2 + 1
    return y, seen


DIFFERENTIATED = [with_a_parameter, two_variables, loop_in_a_branch, branch_in_a_loop, some_without_gradients]


@pytest.mark.parametrize("function", DIFFERENTIATED, ids=lambda f: f.__name__)
def test_gradients_through_loops(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        outcomes = []
        for run in (function, static):
            scale.clear_gradient(set_to_zero=False)
            x = paddle.to_tensor(numbers, stop_gradient=False)
            result = run(x)
            first = result[0] if isinstance(result, tuple) else result
            (first * first).sum().backward()
            stops = [value.stop_gradient for value in flat(result)]
            grads = [leaf.grad if leaf.grad is None else leaf.grad.numpy() for leaf in (x, scale)]
            outcomes.append(([value.numpy() for value in flat(result)], grads, stops))
        want, got = outcomes
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
        for one, other in zip(got[1], want[1], strict=True):
            same_gradients(one, other)
        assert got[2] == want[2]
    stats = sot.stats(static)
    assert (stats.graphs, stats.fallbacks) == (1, [])


def two_outputs(x):
    first = x * scale
    if x.sum() > 0:
        second = x * 3
    else:
        second = x * scale
    return first, second


@pytest.mark.parametrize("at", [0, 1])
def test_each_output_has_gradients_of_its_own(at):
    static = sot.to_static(two_outputs, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        grads = []
        for run in (two_outputs, static):
            x = paddle.to_tensor(numbers, stop_gradient=False)
            run(x)[at].sum().backward()
            grads.append(x.grad.numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


def no_gradient_where_it_holds(x):
    if x.sum() > 0:
        y = paddle.ones([3])
    else:
        y = x * 2
    return y * 3


def no_gradient_where_it_does_not(x):
    y = paddle.ones([3])
    if x.sum() < 0:
        if x.max() > -2:
            y = x * 2
    return y * 3


@pytest.mark.parametrize("function", [no_gradient_where_it_holds, no_gradient_where_it_does_not])
def test_one_side_without_gradients(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        grads = []
        for run in (function, static):
            x = paddle.to_tensor(numbers, stop_gradient=False)
            grads.append(gradient(run(x), x))
        np.testing.assert_array_equal(grads[1], grads[0])
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], [])


SHARED, ANOTHER = [1, 2], [3]


class Thing:
    pass


THING = Thing()


def met_on_both_sides(x):
    if x.sum() > 0:
        found, thing = SHARED, THING
        x = x * 2
    else:
        found, thing = SHARED, THING
    return found, thing, x + 1


def another_on_each_side(x):
    found = SHARED if x.sum() > 0 else ANOTHER
    return found, x + 1


def a_new_one_on_one_side(x):
    found = SHARED if x.sum() > 0 else [1, 2]
    return found, x + 1


def test_objects_from_outside_stay_themselves():
    static = sot.to_static(met_on_both_sides, full_graph=True, min_graph_size=0)
    for numbers in DATA:
        found, thing, _ = static(paddle.to_tensor(numbers))
        assert found is SHARED and thing is THING
    assert sot.stats(static).graphs == 1
    for function in (another_on_each_side, a_new_one_on_one_side):
        with pytest.raises(sot.GraphBreakError, match="a list from outside on one way and a list"):
            sot.to_static(function, full_graph=True)(paddle.to_tensor(DATA[0]))
        static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
        for numbers in DATA:
            x = paddle.to_tensor(numbers)
            assert (static(x)[0] is SHARED) == (function(x)[0] is SHARED)


def test_without_source():
    space = {"paddle": paddle}
    exec("def made(x):\n    return x * 2 if x.sum() > 0 else x\n", space)
    check(space["made"])
    check(lambda x: x - 1 if x.sum() > 0 else x)


def changes_a_list(x, seen):
    if x.sum() > 0:
        seen.append(1)
    return x


def changes_type(x):
    if x.sum() > 0:
        y = 1.5
    else:
        y = x
    return y


def changes_rank(x):
    while x.sum() < 10:
        x = x.unsqueeze(0) + 1
    return x


def changes_dtype(x):
    i = 0
    while x.sum() < 10:
        x = x + 1
        i = x
    return i


def widens(x):
    while x.sum() < 10:
        x = (x + 1).astype("float64")
    return x


@pytest.mark.parametrize(
    ("function", "rest", "text"),
    [
        (widens, (), "may change the size of its dims only"),
        (changes_a_list, ([],), "is changed inside"),
        (changes_type, (), "is 1.5 on one way and a tensor on the other"),
        (changes_rank, (), "may change the size of its dims only"),
        (changes_dtype, (), "may change the size of its dims only"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_captured_breaks(function, rest, text):
    x = paddle.to_tensor(DATA[2])
    with pytest.raises(sot.GraphBreakError, match=text):
        sot.to_static(function, full_graph=True)(x, *rest)
    for numbers in DATA[2:4]:
        x = paddle.to_tensor(numbers)
        static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
        got = static(x, *(list(value) for value in rest))
        same(got, function(x, *(list(value) for value in rest)))


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


def repeated(times):
    def decorate(function):
        def inner(x):
            for _ in range(times):
                x = function(x)
            return x

        return inner

    return decorate


@repeated(times=2)
@doubled
def decorated(x):
    """Its source is not what is called."""
    if x.sum() > 0:
        return x - 1
    while x.sum() < -1:
        x = x / 2
    return x


def test_control_flow_behind_decorators():
    static = sot.to_static(decorated, full_graph=True)
    for numbers in DATA:
        x = paddle.to_tensor(numbers)
        same(static(x), decorated(x))
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], []), record


LOG = []
COUNTS = {"calls": 0}


def appends_to_a_global(x):
    if x.sum() > 0:
        LOG.append(1)
        x = x * 2
    return x


def counts_in_a_global(x):
    while x.abs().sum() < 50:
        COUNTS["calls"] += 1
        x = x * 3 + x.sign()
    return x


def advances_an_iterator(x):
    rest = iter([1, 2, 3])
    if x.sum() > 0:
        x = x * next(rest)
    return x + next(rest)


def advances_an_enumeration(x):
    rest = enumerate([5, 6, 7])
    if x.sum() > 0:
        x = x * next(rest)[1]
    return x + next(rest)[0]


EFFECTS = [appends_to_a_global, counts_in_a_global, advances_an_iterator, advances_an_enumeration]


@pytest.mark.parametrize("function", EFFECTS, ids=lambda f: f.__name__)
def test_side_effects_of_a_branch_happen_once(function):
    static = sot.to_static(function, capture_control_flow=True, min_graph_size=0)
    for numbers in (DATA[0], DATA[1], DATA[0]):
        effects = []
        results = []
        for run in (function, static):
            LOG.clear()
            COUNTS["calls"] = 0
            results.append(run(paddle.to_tensor(numbers)))
            effects.append((list(LOG), dict(COUNTS)))
        assert effects[0] == effects[1]
        same(results[1], results[0])
    messages = [broken.message for broken in sot.stats(static).graph_breaks]
    assert any("cannot be captured" in message for message in messages)


def test_a_failed_assertion_is_the_users():
    static = sot.to_static(asserts, full_graph=True, min_graph_size=0)
    static(paddle.to_tensor(DATA[0]))
    with pytest.raises(AssertionError, match="too big"):
        static(paddle.to_tensor([1000.0, 1000.0, 1000.0]))


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)

    def forward(self, x):
        h = self.a(x)
        if h.mean() > 0:
            h = nn.functional.relu(self.b(h))
            if h.sum() > 5:
                h = h * 0.5
        elif h.sum() < -3:
            h = self.c(h)
            if h.max() > 0:
                return h.tanh()
        return h + 1


class Loop(Net):
    def forward(self, x):
        h = self.a(x)
        i = 0
        while i < 4 and h.abs().max() < 10:
            h = h * 1.3 + self.c(h)
            i += 1
        return h


@pytest.mark.parametrize("make", [Net, Loop])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training(make, seed):
    paddle.seed(seed)
    plain, static = make(), make()
    static.set_state_dict(plain.state_dict())
    sot.to_static(static, full_graph=True)
    optimizers = [paddle.optimizer.SGD(0.1, parameters=net.parameters()) for net in (plain, static)]
    for step in range(6):
        x = paddle.randn([3, 4]) * (step - 2.0)
        results = []
        for net, optimizer in zip((plain, static), optimizers, strict=True):
            y = net(x)
            y.sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            results.append(y.numpy())
        np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)
        for a, b in zip(plain.parameters(), static.parameters(), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert sot.stats(static).graph_breaks == []


class Statistics(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1D(4)

    def forward(self, x):
        if x.mean() > 0:
            x = self.norm(x)
        return x


def test_running_statistics_are_not_captured():
    net = Statistics()
    with pytest.raises(sot.GraphBreakError, match="batch_norm_ inside of control flow"):
        sot.to_static(net, full_graph=True)(paddle.ones([3, 4]))


@pytest.mark.parametrize("make", [Net, Loop])
def test_export(make, tmp_path):
    net = make()
    net.eval()
    sot.save(net, str(tmp_path / "net"), input_spec=[InputSpec([None, 4], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "net"))
    for size in (1, 3, 6):
        for factor in (-5.0, -1.0, 1.0, 5.0):
            x = paddle.randn([size, 4]) * factor
            with eager_deletion():
                found = loaded(x).numpy()
            np.testing.assert_allclose(found, net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_the_graph_is_readable():
    static = sot.to_static(if_else, full_graph=True, min_graph_size=0)
    static(paddle.to_tensor(DATA[0]))
    assert " = cond ((var_2, var_0), {})" in static.code
    assert "then: StatementIR: SIR_0_then" in static.code


def test_random_numbers_that_nobody_looks_at_are_drawn():
    def function(x):
        def draw(x):
            if x.mean() > 0:
                seen = 3
            else:
                seen = paddle.rand(x.shape)
            del seen

        draw(x)
        return x + 1

    translated = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for data in ([1.0, 2.0], [-1.0, -2.0], [1.0, 2.0], [-1.0, -2.0]):
        drawn = []
        for call in (function, translated):
            paddle.seed(3)
            call(paddle.to_tensor(data))
            drawn.append(paddle.rand([]).item())
        assert drawn[0] == drawn[1]
