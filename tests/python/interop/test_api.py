"""The public functions: forms of use, and errors that name the argument."""

import copy
import functools
import gc
import importlib
import inspect
import pickle
import typing
import weakref
from collections import Counter
from dataclasses import astuple, fields, replace

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))


def double(x):
    return x * 2


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)

    @sot.to_static
    def other(self, x):
        return self.linear(x) + 1


def test_forms():
    expected = double(X).numpy()

    @sot.to_static
    def plain(x):
        return x * 2

    @sot.to_static(backend="eager", full_graph=True)
    def with_arguments(x):
        return x * 2

    partial = sot.to_static(functools.partial(lambda x, by: x * by, by=2))
    for function in (plain, with_arguments, sot.to_static(double), sot.to_static()(double), partial):
        assert np.array_equal(function(X).numpy(), expected)
    assert plain.__name__ == "plain"


def test_a_layer_is_returned_itself_and_can_be_copied():
    net = Net()
    assert sot.to_static(net) is net
    expected = net.linear(X).numpy()
    assert np.array_equal(net(X).numpy(), expected)
    assert np.array_equal(net.other(X).numpy(), expected + 1)
    assert np.array_equal(copy.deepcopy(net)(X).numpy(), expected)
    assert list(net.state_dict()) == ["linear.weight", "linear.bias"]


def test_a_translated_function_can_be_pickled():
    assert np.array_equal(pickle.loads(pickle.dumps(sot.to_static(double).__wrapped__))(X).numpy(), (X * 2).numpy())


DECORATED = """
import paddle_sot_rs as sot

@sot.to_static(min_graph_size=0)
def double(x):
    return x * 2

class Halver:
    @sot.to_static(min_graph_size=0)
    def halve(self, x):
        return x / 2

original = sot.to_static(lambda x: x * 3)
"""


def test_decorated_functions_of_a_module_are_pickled_by_name(tmp_path, monkeypatch):
    (tmp_path / "decorated_functions.py").write_text(DECORATED)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("decorated_functions")
    for function in (module.double, module.Halver.halve):
        assert pickle.loads(pickle.dumps(function)) is copy.copy(function) is copy.deepcopy(function) is function
    halve = pickle.loads(pickle.dumps(module.Halver().halve))
    assert np.array_equal(halve(X).numpy(), (X / 2).numpy())
    again = pickle.loads(pickle.dumps(functools.partial(module.double, X)))
    assert np.array_equal(again().numpy(), (X * 2).numpy())
    monkeypatch.setattr(module, "double", None)
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(functools.partial(module.original, X))


def test_objects_whose_class_has_a_translated_call():
    class Doubler:
        @sot.to_static(min_graph_size=0)
        def __call__(self, x):
            return x * 2

    function = sot.to_static(Doubler(), min_graph_size=0)
    assert np.array_equal(function(X).numpy(), (X * 2).numpy())
    assert sot.stats(function).graphs == 1


def test_attributes_of_functions():
    cell = 3

    def inner(x, k=2, *, j: int = 5):
        return x * cell

    function = sot.to_static(inner)
    for name in ("code", "defaults", "kwdefaults", "annotations", "closure", "globals", "name", "qualname", "module"):
        assert getattr(function, f"__{name}__") is getattr(inner, f"__{name}__")


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"backend": "nope"}, ValueError, "unknown backend 'nope'; known: .*eager, .*paddle, "),
        ({"backend": 3}, TypeError, "backend"),
        ({"input_spec": 3}, TypeError, "input_spec"),
        ({"options": {"x": 1}}, ValueError, "options"),
        ({"options": 3}, TypeError, "options"),
        ({"min_graph_size": -1}, ValueError, "min_graph_size"),
        ({"black_list": (3,)}, TypeError, "black_list"),
        ({"full_graph": True, "fallback": True}, ValueError, "fallback"),
    ],
)
def test_bad_arguments(settings, error, text):
    with pytest.raises(error, match=text):
        sot.to_static(double, **settings)


def test_what_is_not_callable_is_refused():
    with pytest.raises(TypeError, match="fn_or_layer"):
        sot.to_static(3)


def test_full_graph_lists_every_reason():
    @sot.to_static(full_graph=True)
    def f(x):
        y = x + 1
        print(y)
        for _ in range(2):
            y = y * 2
            if y.sum() > 0:
                y = y.numpy(False)[0] + x
            else:
                y = y - x.tolist()[0]
        sot.graph_break("the last one")
        return y

    start = f.__wrapped__.__code__.co_firstlineno
    with pytest.raises(sot.GraphBreakError) as caught:
        f(paddle.ones([1]))
    text = str(caught.value)
    found = [
        int(line.split("test_api.py:")[1].split()[0].rstrip(":")) - start
        for line in text.splitlines()
        if ".py:" in line
    ]
    # print() and the branch would be part of the graph: what is on their lines is not listed.
    assert sorted(set(found)) == [7, 9, 10], text
    assert "numpy()" in text and "the last one" in text


def test_full_graph_lists_several_reasons_of_a_line():
    def function(x):
        return x.numpy(False), x.tolist(), x * 2

    with pytest.raises(sot.GraphBreakError) as error:
        sot.to_static(function, full_graph=True)(paddle.ones([2]))
    assert "Tensor.numpy()" in str(error.value) and "Tensor.tolist()" in str(error.value)


def test_full_graph_lists_the_reason():
    @sot.to_static(full_graph=True)
    def f(x):
        return x * x.tolist()[0]

    with pytest.raises(sot.GraphBreakError, match=r"UNSPS.*Tensor\.tolist\(\) needs the value"):
        f(X)


def test_explain_reports_graphs_guards_and_breaks():
    def f(x):
        y = x + 1
        print(float(y.sum()))
        return y * 2

    report = sot.explain(f, min_graph_size=0)(X)
    text = str(report)
    assert len(report.graphs) == 2 and sum(it.count for it in report.graph_breaks) == 2
    assert "var_1 = __add__ ((var_0, 1), {})" in text
    assert "x.shape == [2, 3] and x.dtype == paddle.float32" in text
    assert "UNSPS" in text and "hint:" in text and report.code


@pytest.mark.parametrize(
    ("operations", "trains", "given", "by_calls"),
    [
        (5, False, None, True), (6, False, None, False), (11, True, None, True), (12, True, None, False),
        (1, True, 0, False), (5, True, 5, False), (20, False, 21, True),
    ],
)  # fmt: skip
def test_graphs_too_small_for_a_program_run_call_by_call(operations, trains, given, by_calls):
    def f(x):
        for _ in range(operations):
            x = paddle.tanh(x)
        return x

    x = paddle.ones([3])
    x.stop_gradient = not trains
    report = sot.explain(f, min_graph_size=given)(x)
    assert ("graph 0 (eager)" in str(report)) == by_calls, report


def test_user_breaks_black_lists_and_disable():
    def f(x):
        y = x + 1
        sot.graph_break("here")
        return paddle.nn.functional.relu(y)

    broken = sot.to_static(f)
    assert np.array_equal(broken(X).numpy(), f(X).numpy())
    assert [b.message for b in sot.stats(broken).graph_breaks] == ["here"]
    listed = sot.to_static(f, black_list=(paddle.nn.functional.relu,))
    assert np.array_equal(listed(X).numpy(), f(X).numpy())
    assert [b.code for b in sot.stats(listed).graph_breaks] == ["UNSPS", "CDBL"]


def test_backends_can_be_registered_swapped_and_removed():
    before, seen = sot.list_backends(), []

    def compiler(ir, metas):
        seen.append((str(ir), metas))
        return ir

    sot.register_backend("mine", compiler)
    try:
        with pytest.raises(ValueError, match="already registered"):
            sot.register_backend("mine", compiler)
        f = sot.to_static(double, backend="mine", min_graph_size=0)
        assert np.array_equal(f(X).numpy(), (X * 2).numpy())
        assert len(seen) == 1 and "__mul__" in seen[0][0]
        sot.swap_backend("mine", compiler)
        assert np.array_equal(f(X).numpy(), (X * 2).numpy())
        assert sot.stats(f).translations == 2
    finally:
        sot.unregister_backend("mine")
    assert sot.list_backends() == before
    with pytest.raises(KeyError, match="mine"):
        sot.unregister_backend("mine")


def test_a_swapped_backend_takes_over_at_the_next_call():
    compiled = []

    def named(name):
        return lambda ir, metas: compiled.append(name) or ir

    def loop(x):
        for _ in range(2):
            print(end=str(float(x.sum()))[:0])
            x = x + 1
        return x

    sot.register_backend("mine", named("first"))
    try:
        f = sot.to_static(loop, backend="mine", min_graph_size=0)
        f(X)
        assert compiled == ["first"] * 3
        compiled.clear()
        # More often than a function may have translations.
        for round in range(40):
            sot.swap_backend("mine", named(f"after {round}"))
            for _ in range(2):
                assert np.array_equal(f(X).numpy(), X.numpy() + 2)
            assert compiled == [f"after {round}"] * 3
            compiled.clear()
    finally:
        sot.unregister_backend("mine")
    assert np.array_equal(f(X).numpy(), X.numpy() + 2) and not compiled


def breaking(x):
    y = x + 1
    print(end=str(float(y.sum()))[:0])
    return y * 2


def added(one, other):
    names = [it.name for it in fields(sot.Stats) if it.name not in ("seconds", "own_steps")]
    counts = (getattr(one, name) + getattr(other, name) for name in names)
    seconds = (a + b for a, b in zip(astuple(one.seconds), astuple(other.seconds)))
    own_steps = dict(Counter(one.own_steps) + Counter(other.own_steps))
    return sot.Stats(*counts, sot.Seconds(*seconds), own_steps)


def called(function, *inputs):
    translated = sot.to_static(function, min_graph_size=0)
    for x in inputs:
        translated(x)
    return translated


def test_totals_are_the_sum_over_all_functions():
    sot.reset()
    one, other = called(double, X, X), called(breaking, X, X.astype("int32"))
    total = sot.stats()
    assert isinstance(total, sot.Stats)
    assert (total.graphs, total.translations, total.cache_hits, total.cache_misses) == (5, 6, 2, 6)
    assert (
        sum(reason.count for reason in total.graph_breaks) == 3 and len(total.recompiles) == 2 and not total.fallbacks
    )
    assert astuple(total) == astuple(added(sot.stats(one), sot.stats(other)))
    sot.reset(other)
    assert sot.stats() == sot.stats(one)


def test_totals_are_a_snapshot():
    sot.reset()
    one = called(double, X)
    before = sot.stats()
    one(X)
    assert sot.stats() == replace(before, cache_hits=before.cache_hits + 1)


def test_a_function_that_is_gone_still_counts_and_is_not_kept_alive():
    sot.reset()
    one = called(breaking, X)
    before, dead = sot.stats(), weakref.ref(one)
    del one
    gc.collect()
    assert dead() is None
    assert sot.stats() == before and before.graphs == 2
    sot.reset()
    assert sot.stats() == sot.Stats()


@pytest.mark.parametrize("by", ["reset", "drop"])
def test_graphs_of_resume_functions_are_freed(by):
    def loop(x):
        for _ in range(3):
            print(end=str(float(x.sum()))[:0])
            x = x + 1
        return x

    graphs = []

    def compiler(ir, metas):
        def run(*inputs):
            return ir(*inputs)

        graphs.append(weakref.ref(run))
        return run

    sot.register_backend("mine", compiler)
    try:
        translated = sot.to_static(loop, backend="mine", min_graph_size=0)
        translated(X)
        assert len(graphs) == 3 and all(graph() for graph in graphs)
        if by == "reset":
            sot.reset()
        else:
            del translated
        gc.collect()
        assert [graph() for graph in graphs] == [None] * 3
    finally:
        sot.unregister_backend("mine")


def test_reset_of_everything_empties_every_cache():
    net = sot.to_static(Net(), min_graph_size=0)
    net(X)
    functions = [called(double, X), called(breaking, X), net]
    sot.reset()
    assert sot.stats() == sot.Stats() == sot.stats(net)
    assert all(sot.report.static_function(function).graphs() == [] for function in functions)
    for function in functions:
        function(X)
    assert (sot.stats().translations, sot.stats().cache_hits) == (5, 0)


def test_reset_lets_functions_be_tried_again():
    def f(x):
        yield x

    generator = called(f, *[X] * 5)
    assert sot.stats(generator).translations == 3
    sot.reset()
    generator(X)
    assert sot.stats(generator).translations == 1


def test_reset_of_everything_keeps_backends():
    before = sot.list_backends()
    sot.register_backend("mine", lambda ir, metas: ir)
    try:
        sot.reset()
        assert sot.list_backends() == sorted([*before, "mine"])
    finally:
        sot.unregister_backend("mine")


def test_reset_while_the_function_runs():
    @sot.to_static(min_graph_size=0)
    def f(x):
        y = x + 1
        sot.reset()
        return y * 2

    for _ in range(3):
        assert np.array_equal(f(X).numpy(), (X.numpy() + 1) * 2)


@pytest.mark.parametrize("ask", [sot.stats, sot.reset])
def test_counters_of_what_was_not_translated(ask):
    with pytest.raises(TypeError, match="fn: expected something that to_static returned, got function"):
        ask(double)


def test_a_translated_function_inside_of_another_is_one_graph():
    inner = sot.to_static(lambda x: x * 2)
    net = sot.to_static(paddle.nn.Linear(3, 3))

    def outer(x):
        return net(inner(x)) + inner(net.forward(x))

    static = sot.to_static(outer, min_graph_size=0)
    x = paddle.rand([2, 3])
    np.testing.assert_array_equal(static(x).numpy(), outer(x).numpy())
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks) == (1, [])


def test_inspect_sees_the_original():
    def function(x, y=1, *rest, scale: float = 2.0, **named) -> paddle.Tensor:
        """Adds."""
        return x * scale + y

    class Net(paddle.nn.Layer):
        def forward(self, x, mask=None):
            return x if mask is None else x * mask

    def silent(x):
        return x

    ours, net, plain = sot.to_static(function), sot.to_static(Net()), Net()
    for one, other in ((ours, function), (net.forward, plain.forward), (Net().forward, plain.forward)):
        assert inspect.getfullargspec(one) == inspect.getfullargspec(other)
        assert inspect.signature(one) == inspect.signature(other)
    assert typing.get_type_hints(ours) == typing.get_type_hints(function)
    assert ours.__doc__ == "Adds."
    assert sot.to_static(silent).__doc__ is None
    assert not hasattr(sot.to_static(functools.partial(function, 1)), "__code__")


def test_high_level_models_of_paddle():
    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.drop, self.second = nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 3)

        def forward(self, image):
            return self.second(self.drop(self.first(image).tanh()))

    class Data(paddle.io.Dataset):
        def __getitem__(self, at):
            return np.linspace(at, at + 1, 4, dtype="float32"), np.int64(at % 3)

        def __len__(self):
            return 12

    seen = []
    for translate in (lambda net: net, sot.to_static):
        paddle.seed(3)
        net = translate(Net())
        model = paddle.Model(net)
        optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
        model.prepare(optimizer, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        model.fit(Data(), batch_size=4, epochs=2, verbose=0, shuffle=False)
        answer = model.predict(Data(), batch_size=4, verbose=0)
        seen.append((model.evaluate(Data(), batch_size=4, verbose=0), np.concatenate(answer[0]).tolist()))
    assert str(seen[0]) == str(seen[1])
    assert sot.stats(net).graph_breaks == []


def described(x: int, y=3) -> int:
    """Of another function."""
    return x + y


def fresh():
    def scaled(x, by=2, *, more=1):
        return x * by + more

    return scaled


def with_other_code(function):
    function.__code__ = (lambda x, by=2, *, more=1: x - by - more).__code__


def with_other_defaults(function):
    function.__defaults__ = (5,)
    function.__kwdefaults__ = {"more": 7}


def with_annotations(function):
    function.__annotations__ = {"x": int}


@pytest.mark.parametrize("change", [with_other_code, with_other_defaults, with_annotations])
def test_what_is_written_on_a_function_is_written_on_a_translated_one(change):
    plain, static = fresh(), sot.to_static(fresh(), min_graph_size=0)
    for _ in range(2):
        for function in (plain, static):
            change(function)
        assert static(X).tolist() == plain(X).tolist()
        assert inspect.signature(static) == inspect.signature(plain)


@pytest.mark.parametrize("name", ["__defaults__", "__kwdefaults__", "__annotations__", "__wrapped__"])
def test_what_is_deleted_of_a_function_is_deleted_of_a_translated_one(name):
    plain, static = fresh(), sot.to_static(fresh(), min_graph_size=0)
    found = []
    for function in (plain, static):
        functools.update_wrapper(function, described)
        function.__defaults__ = (4,)
        delattr(function, name)
        try:
            found.append((inspect.signature(function), function(X, 2, more=3).tolist(), function(X, more=3).tolist()))
        except TypeError:
            found.append((inspect.signature(function), TypeError))
    assert found[0] == found[1]


def test_a_translated_function_wraps_another_one():
    plain, static = fresh(), sot.to_static(fresh(), min_graph_size=0)
    for function in (plain, static):
        assert functools.wraps(described)(function) is function
        assert function.__wrapped__ is described and function.__annotations__ == described.__annotations__
        assert (function.__name__, function.__doc__) == ("described", "Of another function.")
        assert inspect.signature(function) == inspect.signature(described)
    assert static(X).tolist() == plain(X).tolist()
    assert sot.to_static(lambda x: static(x) + 1)(X).tolist() == (plain(X) + 1).tolist()
    assert getattr(static, "__type_params__", ()) == getattr(plain, "__type_params__", ())


def test_methods_that_a_class_makes_class_methods():
    def made(decorate):
        class Made:
            seen = []

            @decorate
            def __new__(cls, *args):
                return super().__new__(cls)

            @decorate
            def __class_getitem__(cls, at):
                return cls, at

            @decorate
            def __init_subclass__(cls):
                cls.seen.append(cls.__name__)

        class Below(Made):
            pass

        found = Made[3]
        return found[0] is Made, found[1], Made.seen, type(Made()) is Made, type(Made().__new__(Below)) is Below

    assert made(sot.to_static) == made(lambda function: function)


def test_keywords_are_strings():
    for function in (lambda **named: named, lambda x=1: x):
        for called in (function, sot.to_static(function)):
            with pytest.raises(TypeError, match="keywords must be strings"):
                called(**{1: 2})


def test_a_partial_and_its_translation_share_what_may_be_written():
    partial = functools.partial(lambda x, by=1: x * by, by=2)
    static = sot.to_static(partial)
    for by in (3, 4):
        partial.keywords["by"] = by
        assert static(X).tolist() == partial(X).tolist()
    partial.told = 5
    assert static.told == 5


def test_a_layer_whose_forward_is_a_partial():
    layer = paddle.nn.Linear(3, 3)
    layer.scaled = lambda x, by: paddle.nn.Linear.forward(layer, x) * by
    layer.forward = functools.partial(layer.scaled, by=2)
    x = paddle.ones([2, 3])
    expected = layer(x).tolist()
    assert sot.to_static(layer, min_graph_size=0)(x).tolist() == expected
