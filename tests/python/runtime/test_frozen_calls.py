"""`freeze`: calls of small programs are calls of eager mode's functions, and kinds of tensors alone need no Python."""

import gc
import threading
import weakref

import numpy as np
import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec
from paddle_sot_rs._core import operators

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

if "onednn" not in sot.list_backends():
    pytest.skip("no such backend", allow_module_level=True)


def tensor(*shape, seed=0, dtype="float32"):
    numbers = np.random.RandomState(seed).rand(*shape) * 4 - 2
    return paddle.to_tensor(np.asarray(numbers)).astype(dtype)


def calls(frozen):
    """How many functions of eager mode a call runs; None where it is a program."""
    last = "".join(frozen.report[0][-1:])
    return int(last.split()[-1]) if last.startswith("calls of eager mode's functions") else None


def same(found, expected):
    assert (found.dtype, found.shape, found.stop_gradient) == (expected.dtype, expected.shape, True)
    found, expected = (each.astype("float64").numpy() for each in (found, expected))
    np.testing.assert_array_equal(found, expected)


# Of each operator that is called so, with the options that it takes.
OPERATIONS = {
    "abs": paddle.abs,
    "add": lambda x: x + x[:1],
    "assign": lambda x: paddle.assign(x) + x,
    "cast": lambda x: x.astype("float64") + x.astype("float64"),
    "divide": lambda x: x / (x * x),
    "elu": lambda x: F.elu(x, 0.7),
    "exp": paddle.exp,
    "gelu": lambda x: F.gelu(x) + F.gelu(x, approximate=True),
    "hardsigmoid": lambda x: F.hardsigmoid(x, 0.2, 0.3),
    "hardswish": F.hardswish,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], epsilon=1e-4),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "log": paddle.log,
    "matmul": lambda x: paddle.matmul(x, x, transpose_y=True),
    "maximum": lambda x: paddle.maximum(x, x * x),
    "minimum": lambda x: paddle.minimum(x, x * x),
    "multiply": lambda x: x * x,
    "relu": F.relu,
    "relu6": F.relu6,
    "rsqrt": paddle.rsqrt,
    "scale": lambda x: paddle.scale(x, 2.0, 0.5, bias_after_scale=False) * 3 - 1,
    "sigmoid": F.sigmoid,
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, axis=0),
    "sqrt": paddle.sqrt,
    "square": paddle.square,
    "subtract": lambda x: x * x - x,
    "tanh": paddle.tanh,
}


def test_each_row_is_tried():
    assert set(OPERATIONS) == operators("call")


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_of_eager_mode(name):
    function, are_calls, frozen = OPERATIONS[name], 0, None
    for dtype in ("float32", "float64", "bfloat16", "int64"):
        for shape in ([3, 3], [2, 1, 3], [0, 3]):
            x = tensor(*shape, dtype=dtype)
            try:
                function(x)
                frozen = sot.freeze(function, [(x,)])
            except Exception:  # noqa: BLE001 - eager mode or a program refuses this dtype
                continue
            are_calls += calls(frozen) is not None
            for seed in range(2):
                x = tensor(*shape, dtype=dtype, seed=seed)
                same(frozen(x), function(x))
                # Of other strides.
                x = tensor(*shape[::-1], dtype=dtype, seed=seed).transpose(list(range(len(shape)))[::-1])
                same(frozen(x), function(x))
    # A slice in front of it is no such operator.
    assert are_calls or name == "add", frozen and frozen.report


def test_a_layer():
    net, x = nn.Linear(8, 8), tensor(1, 8)
    net.eval()
    frozen = sot.freeze(net, [(x,)], on_miss="error")
    assert calls(frozen) == 2
    for seed in range(3):
        x = tensor(1, 8, seed=seed)
        same(frozen(x), net(x).detach())
    net.weight.set_value(net.weight * 2)
    assert not np.array_equal(frozen(x).numpy(), net(x).numpy())
    frozen.refresh()
    same(frozen(x), net(x).detach())
    with pytest.raises(LookupError):
        frozen(tensor(2, 8))
    assert frozen.stats == sot.FrozenStats(kinds=1, misses=1, refreshes=1)


def test_what_stays_a_program():
    weight = tensor(4, 4)
    for function in (
        lambda x: x.reshape([-1]) * 2,
        lambda x: x.sum(),
        lambda x: paddle.concat([x, x]),
        lambda x: x[0] + 1,
        lambda x: F.softmax(F.tanh(F.relu(F.silu(F.gelu(x @ weight))))),
    ):
        frozen, x = sot.freeze(function, [(tensor(4, 4),)]), tensor(4, 4, seed=1)
        assert calls(frozen) is None
        same(frozen(x), function(x))


def test_results_are_nobody_elses():
    weight = tensor(3)
    shared = weight * 1

    def f(x):
        y = x + weight
        return x, y, y, shared, paddle.ones([2])

    frozen, x = sot.freeze(f, [(tensor(3),)]), tensor(3, seed=1)
    for _ in range(3):
        before = x.numpy()
        found, expected = frozen(x), f(x)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        for each in found:
            each.zero_()
        np.testing.assert_array_equal(x.numpy(), before)


def test_state_of_the_caller():
    """Gradients are not recorded, and nothing is cast: frozen results are those of the moment of freezing."""
    net, x = nn.Linear(8, 8), tensor(4, 8)
    net.eval()
    frozen, expected = sot.freeze(net, [(x,)]), net(x).detach()
    learner = tensor(4, 8)
    learner.stop_gradient = False
    for _ in range(2):
        for given in (x, learner, learner * 1, paddle.create_parameter([4, 8], "float32")):
            given.detach().set_value(x)
            same(frozen(given), expected)
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
            same(frozen(x), expected)
        with paddle.no_grad():
            same(frozen(x), expected)
        assert paddle.is_grad_enabled()
    # What comes behind has gradients, of what has some.
    (frozen(x) * learner).sum().backward()
    np.testing.assert_array_equal(learner.grad.numpy(), expected.numpy())


def test_static_mode_is_refused():
    frozen, x = sot.freeze(lambda x: x * 2, [(tensor(4, 8),)]), tensor(4, 8)
    frozen(x)
    frozen(x)
    paddle.enable_static()
    try:
        with pytest.raises(RuntimeError, match="^frozen: called in static mode; leave it by paddle.disable_static"):
            frozen(x)
    finally:
        paddle.disable_static()
    same(frozen(x), x * 2)


def test_open_dims_and_many_kinds():
    frozen = sot.freeze(lambda x, y: x @ y + 1, [(InputSpec([None, 4], "float32"), tensor(4, 4))], on_miss="error")
    for _ in range(2):
        for batch in range(1, 40):
            x, y = tensor(batch, 4, seed=batch), tensor(4, 4)
            # Within the backend's tolerance: oneDNN's product has other digits on some processors.
            for found in (frozen(x, y), frozen(y=y, x=x)):
                np.testing.assert_allclose(found.numpy(), (x @ y + 1).numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(LookupError):
        frozen(tensor(3, 4), tensor(4, 4, dtype="float64"))
    with pytest.raises(LookupError):
        frozen(tensor(3, 4))
    assert frozen.stats.misses == 2


def test_a_check_comes_first():
    net, x = nn.Linear(8, 8), tensor(4, 8)
    net.eval()
    frozen = sot.freeze(net, [(x,)], check=True)
    for _ in range(3):
        same(frozen(x), net(x).detach())
    net.bias.set_value(net.bias + 1)
    with pytest.raises(RuntimeError, match="changed since; call refresh"):
        frozen(x)


@pytest.mark.parametrize("way", ["to_sparse_coo", "to_sparse_csr"])
def test_sparse_tensors_are_another_kind(way):
    frozen, x = sot.freeze(lambda x: x * 2, [(tensor(3, 3),)], on_miss="error"), tensor(3, 3)
    same(frozen(x), x * 2)
    sparse = x.to_sparse_coo(2) if way == "to_sparse_coo" else x.to_sparse_csr()
    with pytest.raises((LookupError, TypeError, ValueError, RuntimeError)):
        frozen(sparse)
    same(frozen(x), x * 2)


def test_threads_and_refreshes():
    net, x = nn.Linear(8, 8), tensor(4, 8)
    net.eval()
    frozen, expected, wrong = sot.freeze(net, [(x,)]), [net(x).numpy()], []
    net.bias.set_value(net.bias + 1)
    expected.append(net(x).numpy())

    def run():
        try:
            for _ in range(200):
                found = frozen(x)
                if not found.stop_gradient or not any(np.array_equal(found.numpy(), one) for one in expected):
                    wrong.append(found)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    frozen.refresh()
    for thread in threads:
        thread.join()
    assert not wrong and paddle.is_grad_enabled()
    same(frozen(x), net(x).detach())


def test_nothing_is_kept_alive():
    net, x = nn.Linear(8, 8), tensor(4, 8)
    net.eval()
    frozen = sot.freeze(net, [(x,)])
    frozen(x)
    frozen(x)
    gone = weakref.ref(frozen)
    del frozen
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("name", ["argument", "of a network"])
def test_branches_on_dims_give_what_comes_in_or_what_is_made(name):
    """An `InputSpec` says that gradients flow to it, and none do in a call."""
    layer = nn.Linear(4, 4)
    layer.eval()
    made = layer if name == "of a network" else lambda x: x * 2
    function = lambda x: x if x.shape[0] > 2 else made(x)  # noqa: E731
    frozen = sot.freeze(function, [(InputSpec([None, 4], "float32"),)], backend="paddle")
    for rows in (1, 2, 3, 5):
        x = tensor(rows, 4)
        with paddle.no_grad():
            same(frozen(x), function(x))


def pyramid(x):
    y = F.max_pool2d(x, 2)
    z = F.interpolate(F.max_pool2d(y, 2), scale_factor=2)
    return paddle.concat([F.interpolate(paddle.concat([y, z], 1), scale_factor=2), x], 1)


def rows_of_another(x, y):
    return x[paddle.argsort(y[:, 0])] * 2


def framed(x):
    return paddle.signal.frame(x, 16, 8) * 2


# By name: the function, the open dims, and sizes of calls.
OF_SOME_SIZES = {
    "multiples of four": (pyramid, [[None, 2, None, None]], [(1, 8, 12), (3, 4, 4), (2, 16, 8)]),
    "as many rows": (rows_of_another, [[None, 3], [None, 2]], [(4, 4), (1, 1), (7, 7)]),
    "sixteen and more": (framed, [[None, None]], [(2, 16), (1, 40), (3, 33)]),
}


@pytest.mark.parametrize("name", OF_SOME_SIZES)
def test_functions_that_take_some_sizes_only(name):
    """Examples of such sizes are looked for, as `save` does."""
    function, open_dims, calls = OF_SOME_SIZES[name]
    frozen = sot.freeze(function, [[InputSpec(list(dims), "float32") for dims in open_dims]], backend="paddle")
    for sizes in map(iter, calls):
        given = [tensor(*(next(sizes) if dim is None else dim for dim in dims)) for dims in open_dims]
        same(frozen(*given), function(*given))
    assert frozen.stats.kinds == 1 and frozen.stats.misses == 0


def test_functions_that_take_no_size_say_what_they_raise():
    with pytest.raises(sot.GraphBreakError, match="concat"):
        sot.freeze(lambda x: paddle.concat([x, x[:, 1:]], 0) + x[:, :2], [(InputSpec([2, None], "float32"),)])
    with pytest.raises(ValueError, match="index"):
        sot.freeze(lambda x: x[paddle.full([1], 10**6, "int64")], [(InputSpec([None, 3], "float32"),)])


def test_layers_that_the_function_makes():
    """A new layer takes a name, which nobody sees."""

    class Blocks(nn.Layer):
        def __init__(self):
            super().__init__()
            self.blocks = nn.LayerList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            for block in self.blocks[:2]:
                x = nn.GELU()(block(x))
            return nn.Softmax(axis=-1)(nn.Flatten()(x))

    net = Blocks()
    net.eval()
    for backend in ("onednn", "paddle"):
        frozen = sot.freeze(net, [(InputSpec([None, 4], "float32"),)], backend=backend)
        for rows in (2, 3):
            x = tensor(rows, 4)
            np.testing.assert_allclose(frozen(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)


OF_DIMS = {
    "dim": lambda x: (x * 2, x.shape[0]),
    "number of rows": lambda x: {"rows": x, "count": len(x)},
    "in a list": lambda x: [x, [x.shape[0], x.shape[1]]],
    "computed": lambda x: (x * 2, x.shape[0] // 2),
}


@pytest.mark.parametrize("name", OF_DIMS)
def test_numbers_of_open_dims_are_no_constants(name):
    """Each call gave the one of the example."""
    function = OF_DIMS[name]
    with pytest.raises(TypeError, match="depend on open dims"):
        sot.freeze(function, [(InputSpec([None, 3], "float32"),)], backend="paddle")
    frozen = sot.freeze(function, [(InputSpec([2, 3], "float32"),)], backend="paddle")
    for rows in (2, 3):
        found, expected = (paddle.utils.flatten(run(tensor(rows, 3))) for run in (frozen, function))
        assert [type(it) for it in found] == [type(it) for it in expected]
        assert all(
            (one == other).all() if isinstance(one, paddle.Tensor) else one == other
            for one, other in zip(found, expected, strict=True)
        )
