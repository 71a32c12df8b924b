"""`paddle_sot_rs.jit`: the functions of `paddle.jit`, and what Paddle's static functions have."""

import inspect
import logging

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.jit.dy2static.program_translator import CacheKey, StaticFunction
from paddle.static import BuildStrategy, InputSpec

pytestmark = pytest.mark.default_python


def scaled(x, by=2):
    return x * by + 1


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(2, 4)

    def forward(self, x, y):
        return self.first(x), {"second": self.second(x + y)}

    @sot.jit.to_static(property=True)
    def count(self):
        return 5


X = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
SPEC = [InputSpec([None, 2], "float32", "x")]


def test_every_name_of_paddles_module_is_there():
    assert set(paddle.jit.__all__) <= set(sot.jit.__all__)
    # `paddle.jit.save` takes its options by name.
    for name in ("to_static", "set_verbosity", "set_code_level", "enable_to_static"):
        ours, theirs = (list(inspect.signature(getattr(at, name)).parameters) for at in (sot.jit, paddle.jit))
        assert ours == theirs


def test_every_public_attribute_of_paddles_static_functions_is_there():
    static = sot.jit.to_static(scaled, SPEC)
    static(X)
    missing = [name for name in dir(StaticFunction) if not name.startswith("_") and not hasattr(static, name)]
    # There is none: the error says what to use.
    assert [name for name in missing if name != "program_cache"] == []
    with pytest.raises(AttributeError, match=r"stats\(scaled\), scaled.graphs\(\) or scaled.get_traced_count"):
        static.program_cache  # noqa: B018


@pytest.mark.parametrize("backend", ["CINN", "cinn", None, "eager", "paddle"])
def test_arguments_by_position(backend):
    static = sot.jit.to_static(scaled, SPEC, None, backend, min_graph_size=0)
    for rows in (3, 2):
        np.testing.assert_array_equal(static(X[:rows]).numpy(), scaled(X[:rows]).numpy())
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])
    # Paddle's lets calls differ.
    assert static(4) == 9


def test_as_a_decorator_and_on_a_layer():
    @sot.jit.to_static(input_spec=SPEC, full_graph=True)
    def chosen(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    for x in (X, -X):
        np.testing.assert_array_equal(chosen(x).numpy(), (x * 2 if x is X else x - 1).numpy())
    assert (chosen.get_traced_count(), sot.stats(chosen).graph_breaks) == (1, [])
    net = nn.Linear(2, 2)
    assert sot.jit.to_static(net) is net
    np.testing.assert_array_equal(net(X).numpy(), (X @ net.weight + net.bias).numpy())


def test_a_strategy_is_named_once(caplog):
    strategy = BuildStrategy()
    sot.jit.to_static(scaled, build_strategy=strategy)
    assert caplog.messages == []
    strategy.enable_addto, strategy.fuse_gemm_epilogue = True, True
    sot.jit.to_static(scaled, build_strategy=strategy)
    assert [text.partition(": ")[2] for text in caplog.messages] == [
        "build_strategy is not used by paddle_sot_rs: enable_addto=True, fuse_gemm_epilogue=True"
    ]


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"build_strategy": 3}, TypeError, "build_strategy: expected a paddle.static.BuildStrategy, got int"),
        ({"backend": "TVM"}, ValueError, "backend: unknown backend 'TVM'; known: \"CINN\", None, 'cinn', 'eager'"),
        ({"backend": 3}, TypeError, 'backend: expected "CINN", None or a name'),
        ({"full_grap": True}, TypeError, "unknown argument 'full_grap'.*did you mean full_graph"),
        ({"input_spec": 3}, TypeError, "input_spec: expected a list or tuple, got int"),
        ({"full_graph": 3}, TypeError, "full_graph: expected True or False, got 3"),
    ],
)
def test_wrong_arguments(given, error, text):
    with pytest.raises(error, match=text):
        sot.jit.to_static(scaled, **given)


def test_a_property_is_paddles():
    net = Net()
    assert (net.count(), net.count.is_property) == (5, True)
    assert not sot.to_static(scaled).is_property


def test_what_is_known_of_a_function():
    static = sot.to_static(scaled, input_spec=SPEC, min_graph_size=0)
    spec = static.function_spec
    assert (spec.args_name, [one.shape for one in spec.input_spec]) == (["x", "by"], [(-1, 2)])
    assert (static.get_traced_count(), static.last_call_input_spec) == (0, None)
    static(X)
    assert static.get_traced_count() == 1
    assert [one.shape for one in static.last_call_input_spec] == [(3, 2)]
    assert static.class_instance is None


def test_the_object_of_a_method():
    class Scaled:
        @sot.to_static
        def call(self, x):
            return x * 2

        def other(self, x):
            return x * 3

    made = Scaled()
    assert sot.to_static(made.other).class_instance is made
    with pytest.raises(AttributeError, match=r"call is bound when it is called: use net.call.__self__"):
        made.call.class_instance  # noqa: B018
    assert made.call.__self__ is made


def test_programs_for_specifications(caplog):
    given = sot.to_static(lambda x: x * 3, input_spec=SPEC)
    assert "x" in [value.name for value in given.concrete_program_specify_input_spec().inputs]
    with pytest.raises(ValueError, match="contradicts what to_static was given"):
        given.concrete_program_specify_input_spec([InputSpec([4], "float32")])
    caplog.set_level(logging.WARNING, "paddle_sot_rs")
    given.concrete_program_specify_input_spec([InputSpec([3, 2], "float32")])
    assert len(caplog.messages) == 1 and "to_static was given one, which is used" in caplog.messages[0]
    free = sot.to_static(lambda x: x * 3)
    program = free.concrete_program_specify_input_spec([InputSpec([None, 5], "float32", "it")])
    assert [value.name for value in program.inputs] == ["it"]
    with pytest.raises(ValueError, match="is_prim_infer: not supported; use to_static"):
        free.concrete_program_specify_input_spec(SPEC, is_prim_infer=True)


def test_hooks_of_the_outermost_layer():
    net = nn.Linear(2, 2)
    net.register_forward_post_hook(lambda layer, args, result: result.exp())
    static = sot.to_static(net).forward
    counts = [static.concrete_program_specify_input_spec(SPEC, hooks).main_program.num_ops() for hooks in (False, True)]
    assert counts[1] > counts[0]


def test_a_key_of_paddles():
    static = sot.to_static(lambda x: x * 3)
    key = CacheKey(static.function_spec, (SPEC[0],), {}, None)
    program, same = static.get_concrete_program_with_cache_key(key)
    assert same is static and [value.name for value in program.inputs] == ["x"]
    with pytest.raises(TypeError, match="cached_key: expected a CacheKey of Paddle's, got str"):
        static.get_concrete_program_with_cache_key("key")


def test_the_switch():
    static = sot.to_static(lambda x: x * 3, min_graph_size=0)
    sot.jit.enable_to_static(False)
    try:
        np.testing.assert_array_equal(static(X).numpy(), (X * 3).numpy())
        assert sot.stats(static).translations == 0
    finally:
        sot.jit.enable_to_static(True)
    static(X)
    assert sot.stats(static).translations == 1
    with pytest.raises(TypeError, match="enable_to_static: expected True or False, got 0"):
        sot.jit.enable_to_static(0)


def test_functions_that_paddle_does_not_transform_are_followed():
    @sot.jit.not_to_static
    def inner(x):
        return x + 1

    sot.jit.ignore_module([np])
    static = sot.to_static(lambda x: inner(x) * 2, min_graph_size=0)
    np.testing.assert_array_equal(static(X).numpy(), ((X + 1) * 2).numpy())
    assert (sot.stats(static).graphs, sot.stats(static).graph_breaks) == (1, [])


def test_levels_of_logs(capfd):
    def breaks(x):
        sot.graph_break()
        return x * 2

    for level, shown in ((0, False), (1, True), (0, False)):
        sot.jit.set_verbosity(level, also_to_stdout=True)
        sot.to_static(breaks, min_graph_size=0, dynamic=level == 1)(X)
        assert ("[paddle_sot_rs.graph_breaks]" in capfd.readouterr().out) is shown
    with pytest.raises(TypeError, match="level: expected a number, got 'high'"):
        sot.jit.set_code_level("high")


@pytest.mark.parametrize(("picked", "same_input"), [([1], True), ([1, 0], True), ([0], False)])
def test_some_results_are_saved(tmp_path, picked, same_input):
    net = Net()
    net.eval()
    path = str(tmp_path / "net")
    sot.jit.save(net, path, [InputSpec([None, 2]), InputSpec([None, 2])], output_spec=picked, with_hook=True)
    loaded = sot.jit.load(path)
    assert isinstance(loaded, sot.jit.TranslatedLayer | paddle.jit.pir_translated_layer.PirTranslatedLayer)
    found, (first, second) = loaded(X, X), net(X, X)
    wanted = [(first, second["second"])[at] for at in picked]
    for got, want in zip(found if len(picked) > 1 else [found], wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert [spec.shape[1] for spec in loaded._output_spec()] == [want.shape[1] for want in wanted]
    assert [spec.name for spec in loaded._input_spec()] == ["x", "y"]
    assert loaded.program().num_ops() > 0


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"output_spec": 1}, TypeError, "output_spec: expected a list of positions, got int"),
        ({"output_spec": [2]}, ValueError, "output_spec: position 2, but there are 2 results"),
        ({"output_spec": []}, ValueError, "output_spec: expected at least one position"),
        ({"output_spec": [X]}, TypeError, "expected positions of results, counted from 0, got a Tensor"),
        ({"combine_params": True}, ValueError, "combine_params: not supported by paddle_sot_rs: each method"),
        ({"output_specs": [1]}, TypeError, "save: unknown argument 'output_specs'; known: output_spec, skip_forward"),
    ],
)
def test_wrong_arguments_of_save(tmp_path, given, error, text):
    with pytest.raises(error, match=text):
        sot.save(Net(), tmp_path / "net", [InputSpec([None, 2]), InputSpec([None, 2])], **given)
    assert list(tmp_path.iterdir()) == []


def test_without_forward(tmp_path):
    class Both(nn.Layer):
        def forward(self, x):
            return x * 2

        @sot.to_static(input_spec=SPEC)
        def encode(self, x):
            return x * 3

    sot.save(Both(), tmp_path / "net", skip_forward=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".json") == ["net.encode.json"]
