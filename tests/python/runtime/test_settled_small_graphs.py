"""Functions of few operations and no break: settled, they run as they are, and most calls are not looked at."""

import itertools
import types
import weakref

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn

pytestmark = pytest.mark.default_python

# By then most calls are not looked at any more.
LONG = 160
# Of so many calls that are alike one is looked at by then.
ASKED = 128


def weight():
    return paddle.create_parameter([4], "float32", default_initializer=nn.initializer.Constant(2.0))


def added(x, w):
    return x + w


def small(function, **options):
    options.setdefault("min_graph_size", None)
    return translate(function, **options)


def settle(translated, *given, calls=LONG, **named):
    for _ in range(calls):
        found = translated(*given, **named)
    return found


def ids(translated):
    return [reason.id for reason in sot.stats(translated).fallbacks]


def looked_at(translated):
    stats = sot.stats(translated)
    return stats.cache_hits + stats.cache_misses


def test_one_operation_with_gradients_runs_as_it_is():
    x, w, u = paddle.ones([4]), weight(), weight()
    translated = small(added)
    for _ in range(LONG):
        found, expected = translated(x, w), added(x, u)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert (found.stop_gradient, found.is_leaf) == (expected.stop_gradient, expected.is_leaf)
        found.sum().backward()
        expected.sum().backward()
        np.testing.assert_array_equal(w.grad.numpy(), u.grad.numpy())
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs, stats.graph_breaks) == (1, 1, [])
    assert ids(translated) == ["PSR0806"]
    assert looked_at(translated) < LONG


def test_a_few_calls_are_not_settled():
    translated = small(added)
    settle(translated, paddle.ones([4]), weight(), calls=10)
    assert (ids(translated), looked_at(translated)) == ([], 10)


def test_a_function_without_operations_runs_as_it_is():
    translated = small(lambda x: x.shape[0])
    assert settle(translated, paddle.ones([4])) == 4
    assert ids(translated) == ["PSR0806"]


OWN = {
    "programs of any size": {"min_graph_size": 0},
    "one graph": {"min_graph_size": None, "full_graph": True},
    "the backend eager": {"min_graph_size": None, "backend": "eager"},
    "an input specification": {"min_graph_size": None, "input_spec": [paddle.static.InputSpec([4]), None]},
}


@pytest.mark.parametrize("name", OWN)
def test_what_is_asked_for_in_each_call(name):
    translated = translate(added, **OWN[name])
    settle(translated, paddle.ones([4]), weight())
    assert looked_at(translated) == LONG
    assert ids(translated) == (["PSR0806"] if "input_spec" in OWN[name] else [])


def test_a_backend_of_the_user_gets_every_call():
    calls = []

    def counts(ir, metas):
        def run(*given):
            calls.append(1)
            return ir(*given)

        return run

    sot.register_backend("counts every call", counts)
    try:
        translated = small(added, backend="counts every call")
        settle(translated, paddle.ones([4]), weight())
    finally:
        sot.unregister_backend("counts every call")
    assert (len(calls), ids(translated)) == (LONG, [])


def chosen(x, w, large=False, count=1):
    for _ in range(count):
        x = x + w
    return x * 2 if large else x


# As long as there is one translation tensors are not looked into: of others, it would be as small.
TENSORS = {
    "shape": (lambda x, w: (paddle.ones([3, 4]), w)),
    "dtype": (lambda x, w: (x.astype("float64"), w.astype("float64"))),
    "frozen": (lambda x, w: (x, w.detach())),
}


@pytest.mark.parametrize("name", TENSORS)
def test_other_tensors_are_seen_when_a_call_is_looked_at(name):
    translated, x, w = small(chosen), paddle.ones([4]), weight()
    settle(translated, x, w)
    given = TENSORS[name](x, w)
    for _ in range(ASKED):
        np.testing.assert_array_equal(translated(*given).numpy(), chosen(*given).numpy())
    assert sot.stats(translated).translations == 2
    settle(translated, *given)
    before = looked_at(translated)
    for _ in range(4):
        translated(x, w)
        translated(*given)
    assert looked_at(translated) - before <= 2


CHANGES = {
    "a number": (lambda x, w: ((5.0, w), {})),
    "flag": (lambda x, w: ((x, w, True), {})),
    "flag by name": (lambda x, w: ((x, w), {"large": True})),
    "number by name": (lambda x, w: ((x, w), {"count": 20})),
    "all by name": (lambda x, w: ((), {"x": x, "w": w, "count": 3})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_arguments_are_seen_at_once(name):
    translated, x, w = small(chosen), paddle.ones([4]), weight()
    settle(translated, x, w)
    before = looked_at(translated), sot.stats(translated).translations
    args, kwargs = CHANGES[name](x, w)
    found, expected = translated(*args, **kwargs), chosen(*args, **kwargs)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert (looked_at(translated), sot.stats(translated).translations) == (before[0] + 1, before[1] + 1)


def test_the_grad_mode_is_seen_when_a_call_is_looked_at():
    translated, x, w = small(added), paddle.ones([4]), weight()
    settle(translated, x, w)
    with paddle.no_grad():
        for _ in range(ASKED):
            assert translated(x, w).stop_gradient
    assert sot.stats(translated).translations == 2
    assert not translated(x, w).stop_gradient


def test_other_code_is_seen_at_once():
    def function(x):
        return x + 1

    translated = sot.to_static(function)
    x = paddle.ones([4])
    settle(translated, x)
    function.__code__ = (lambda x: x - 1).__code__
    assert translated(x).tolist() == [0.0] * 4
    assert sot.stats(translated).translations == 2


def test_what_is_forgotten_is_translated_again():
    translated, x = small(added), paddle.ones([4])
    settle(translated, x, x)
    assert looked_at(translated) < LONG
    sot.reset(translated)
    translated(x, x)
    assert (looked_at(translated), sot.stats(translated).translations) == (1, 1)


WAY = types.SimpleNamespace(large=False)


def by_state(x):
    for _ in range(20 if WAY.large else 1):
        x = paddle.nn.functional.relu(x + 1)
    return x


def test_another_way_through_is_found_in_time():
    translated, x = small(by_state), paddle.ones([4])
    settle(translated, x)
    WAY.large = True
    try:
        for _ in range(ASKED):
            np.testing.assert_array_equal(translated(x).numpy(), by_state(x).numpy())
    finally:
        WAY.large = False
    stats = sot.stats(translated)
    assert (stats.translations, stats.graphs) == (2, 2)
    assert any(record.backend.startswith("paddle") for record in translated.graphs())


def test_numbers_and_sizes_that_differ_between_calls_are_alike():
    translated = small(lambda x, rate: x * rate)
    for number in range(2, 2 + 3 * LONG):
        x = paddle.ones([2 + number % 7])
        assert translated(x, number / 3).tolist() == pytest.approx([number / 3] * x.shape[0])
    assert looked_at(translated) < 3 * LONG


def test_many_translations_that_all_lose_are_one_kind():
    translated = small(lambda x: x * 2 + 1, dynamic=False)
    shapes = [paddle.ones([rows, 2]) for rows in range(2, 12)]
    for _ in range(LONG):
        for x in shapes:
            assert translated(x).tolist() == (x * 2 + 1).tolist()
    stats = sot.stats(translated)
    assert (stats.translations, stats.graph_breaks) == (10, [])
    # Each of them until it has lost often enough; then few.
    assert looked_at(translated) < 10 * 20 + LONG


def flat(x):
    return x.reshape([x.shape[0] * x.shape[1]])


def quarter(x):
    return x[: (x.shape[0] + 3) // 4, : x.shape[1] - 1]


def scaled(x):
    return x * (2 * x.shape[0] + x.shape[1] - 1) / max(x.shape)


def encoded(x):
    rows, columns = x.shape
    rates = paddle.exp(paddle.arange(columns, dtype="float32") * (-9.0 / columns))
    return x + paddle.sin(paddle.arange(rows, dtype="float32").unsqueeze(1) * rates)


@pytest.mark.parametrize("function", [flat, quarter, scaled])
def test_what_python_computes_of_open_dims_is_no_operation(function):
    translated = small(function)
    shapes = [paddle.rand([rows, columns]) for rows, columns in ((2, 3), (3, 5), (7, 4), (6, 6), (4, 8))]
    for _ in range(LONG):
        for x in shapes:
            np.testing.assert_array_equal(translated(x).numpy(), function(x).numpy())
    assert (ids(translated), sot.stats(translated).graph_breaks) == (["PSR0806"], [])
    assert looked_at(translated) < LONG


def test_a_program_that_computes_with_open_dims_stays():
    translated = small(encoded)
    shapes = [paddle.rand([rows, columns]) for rows, columns in ((2, 3), (3, 5), (7, 4), (6, 6), (4, 8))]
    for _ in range(LONG):
        for x in shapes:
            np.testing.assert_array_equal(translated(x).numpy(), encoded(x).numpy())
    stats = sot.stats(translated)
    assert (stats.translations, ids(translated), stats.graph_breaks) == (2, [], [])
    assert looked_at(translated) == 5 * LONG


def test_calls_of_two_kinds_are_told_apart():
    translated, x, w = small(chosen), paddle.ones([4]), weight()
    for large, _ in itertools.product([False, True], range(LONG)):
        assert translated(x, w, large).tolist() == chosen(x, w, large).tolist()
    before = looked_at(translated)
    for number in range(LONG):
        assert translated(x, w, number % 2 == 0).tolist() == chosen(x, w, number % 2 == 0).tolist()
    assert looked_at(translated) - before < LONG / 2
    assert sot.stats(translated).translations == 2


def test_a_program_beside_a_small_graph_stays():
    def function(x, large):
        for _ in range(20 if large else 1):
            x = paddle.nn.functional.relu(x + 1)
        return x

    translated, x = small(function), paddle.ones([4])
    for number in range(2 * LONG):
        large = number % 2 == 0
        np.testing.assert_array_equal(translated(x, large).numpy(), function(x, large).numpy())
    # All of those with the program, and some of the others.
    assert LONG < looked_at(translated) < 2 * LONG
    assert ids(translated) == ["PSR0806"]


def averages(count):
    weights = {f"w{number}": paddle.full([4], float(number)) for number in range(count)}
    means = {name: paddle.zeros([4]) for name in weights}

    def averaged():
        with paddle.no_grad():
            for name, w in weights.items():
                means[name] = means[name] * 0.5 + w * 0.5

    return averaged, means


def test_a_graph_with_a_result_for_each_few_operations_is_no_program():
    (function, means), (plain, expected) = averages(16), averages(16)
    translated = small(function)
    for _ in range(LONG):
        translated()
        plain()
    for name, mean in means.items():
        np.testing.assert_array_equal(mean.numpy(), expected[name].numpy())
    assert ({record.backend for record in translated.graphs()}, ids(translated)) == ({"eager"}, ["PSR0806"])


def test_results_of_programs_of_any_size_are_not_weighed():
    function, _ = averages(16)
    translated = small(function, **OWN["programs of any size"])
    translated()
    assert {record.backend for record in translated.graphs()} == {"paddle"}


def test_methods_and_layers():
    class Scale(nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = weight()

        def forward(self, x):
            return x * self.w

    net, plain, x = Scale(), Scale(), paddle.ones([4])
    plain.w = paddle.create_parameter([4], "float32", default_initializer=nn.initializer.Constant(2.0))
    translated = sot.to_static(net)
    for _ in range(LONG):
        translated(x).sum().backward()
        plain(x).sum().backward()
    np.testing.assert_array_equal(net.w.grad.numpy(), plain.w.grad.numpy())
    assert ids(translated.forward) == ["PSR0806"]


def test_what_many_functions_are_followed_for_stays():
    def one(x):
        return x

    def function(x):
        for _ in range(40):
            x = one(x)
        return x + 1

    translated = small(function)
    settle(translated, paddle.ones([4]))
    assert (ids(translated), looked_at(translated)) == ([], LONG)


def test_errors_are_those_of_the_function():
    translated, x = small(added), paddle.ones([4])
    settle(translated, x, x)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        translated(x)
    with pytest.raises(TypeError):
        translated(x, w=x, z=1)
    with pytest.raises(Exception, match="[Bb]roadcast"):
        translated(x, paddle.ones([3]))


def test_arguments_live_as_long_as_in_plain_python():
    class Box:
        pass

    translated = small(lambda box, x: x + box.one)
    for _ in range(LONG):
        box = Box()
        box.one = 1.0
        seen = weakref.ref(box)
        translated(box, paddle.ones([4]))
        del box
        assert seen() is None
