"""Functions of Paddle that compute with dims in Python: where a dim differs between calls, not with its -1."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.nn import functional as F

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

COMPLEX = {"fft", "ifft", "fftn"}
INDEX = paddle.to_tensor([-1, 2])

FUNCTIONS = {
    "kl_div": lambda x: F.kl_div(F.log_softmax(x), F.softmax(x * 2), reduction="batchmean"),
    "dice_loss": lambda x: F.dice_loss(F.softmax(x), paddle.zeros([x.shape[0], 1], "int64")),
    "dice_loss_classes": lambda x: F.dice_loss(F.softmax(x.T), paddle.zeros([6, 1], "int64")),
    "trapezoid": lambda x: paddle.trapezoid(x, axis=0),
    "cumulative_trapezoid": lambda x: paddle.cumulative_trapezoid(x, axis=0),
    "cov": lambda x: paddle.linalg.cov(x.T),
    "cov_of_columns": lambda x: paddle.linalg.cov(x, rowvar=False),
    "corrcoef": lambda x: paddle.linalg.corrcoef(x.T),
    "take": lambda x: paddle.take(x, INDEX),
    "take_wrapped": lambda x: paddle.take(x, INDEX + 40, mode="wrap"),
    "take_clipped": lambda x: paddle.take(x, INDEX + 90, mode="clip"),
    "fft": lambda x: paddle.fft.fft(paddle.complex(x, x), n=16, axis=0).real(),
    "ifft": lambda x: paddle.fft.ifft(paddle.complex(x, x), n=16, axis=0).real(),
    "fftn": lambda x: paddle.fft.fftn(paddle.complex(x, x), s=[16, 4], axes=[0, 1]).real(),
    "rfft": lambda x: paddle.fft.rfft(x, n=8, axis=0).real(),
    "unbind": lambda x: paddle.unbind(x[:3], axis=0)[1] * 2,
    "normalize": lambda x: F.normalize(x, axis=0),
    "mean_and_variance": lambda x: (x - x.mean(0)) / x.var(0).sqrt(),
    "label_smooth": lambda x: F.label_smooth(F.softmax(x.T), epsilon=0.2),
    "npair_loss": lambda x: F.npair_loss(x, x * 2, paddle.arange(x.shape[0]).astype("float32")),
    "vander": lambda x: paddle.vander(x[:, 0], n=3),
    "diff": lambda x: paddle.diff(x, axis=0),
    "quantile": lambda x: paddle.quantile(x, 0.3, axis=0),
    "median": lambda x: paddle.median(x, axis=0),
    "roll": lambda x: paddle.roll(x, 2, axis=0),
    "unfold": lambda x: F.unfold(x.reshape([1, 1, -1, 6]), 2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.T.reshape([1, 2, 3, -1])[:, :, :, :1].tile([1, 2, 1, 1]), 2),
    "interpolate": lambda x: F.interpolate(x.T.unsqueeze(0), scale_factor=2, mode="linear", data_format="NCW"),
    "pool": lambda x: F.adaptive_avg_pool1d(x.T.unsqueeze(0), 3),
    "local_response_norm": lambda x: F.local_response_norm(x.T.reshape([1, 6, -1, 1]), 3),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0), axis=0),
    "glu": lambda x: F.glu(x, axis=1),
    "trapezoid_of_points": lambda x: paddle.trapezoid(x[:, 0], x[:, 1].cumsum(0)),
    # What is returned as it was given was made by another call.
    "kl_div_as_it_is": lambda x: F.kl_div(x, F.softmax(x * 2), reduction="batchmean").astype("float32"),
    "cumsum": lambda x: paddle.cumsum(x) * 2,
    "tensor_split": lambda x: paddle.tensor_split(x, 2, axis=0)[0] * 2,
    "vsplit": lambda x: paddle.vsplit(x, [2])[0] * 2,
    "tensordot": lambda x: paddle.tensordot(x, x, axes=[[0], [0]]),
    "bilinear": lambda x: F.bilinear(x, x, paddle.ones([2, 6, 6])),
    "temporal_shift": lambda x: F.temporal_shift(x.reshape([-1, 6, 1, 1]), 1, 0.25),
}


def step(function, rows):
    paddle.seed(rows)
    x = paddle.randn([rows, 6])
    x.stop_gradient = False
    result = function(x)
    (result * result).sum().backward()
    return result, x.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_for_every_size(name):
    function = FUNCTIONS[name]
    static = sot.to_static(function, min_graph_size=0)
    for rows in (11, 9, 7, 30, 9, 1, 2):
        expected = outcome(function, rows)
        found = outcome(static, rows)
        assert expected == found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_that_only_the_graph_knows(name):
    """Rows that a mask keeps: what computes with their -1 breaks the graph."""

    def function(x):
        return FUNCTIONS[name](x[x[:, 0] > -0.5] * 1.0)

    static = sot.to_static(function, min_graph_size=0)
    for rows in (11, 9, 7, 30, 9, 1, 2):
        assert outcome(static, rows) == outcome(function, rows)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rounds_of_open_loops(name):
    """Nobody compares what rounds are made of: there, computing with a dim breaks the graph."""

    def function(x):
        total = x.sum()
        for at in range(x.shape[0]):
            total = total + FUNCTIONS[name](x).sum() * (at + 1)
        return total

    static = sot.to_static(function, min_graph_size=0, capture_control_flow=True)
    for rows in (11, 9, 7, 12, 9):
        want, got = outcome(function, rows), outcome(static, rows)
        assert isinstance(want, tuple) == isinstance(got, tuple)
        if isinstance(want, tuple):
            for one, other in zip(want[1:], got[1:], strict=True):
                one, other = np.frombuffer(one, "float32"), np.frombuffer(other, "float32")
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


SEEN = {
    "product of batches": lambda x: x.reshape([-1, 1, 2, 3]) @ paddle.ones([1, 5, 3, 2]),
    "diagonal": lambda x: paddle.diag(x[:, 0], offset=1),
    "half of a transform": lambda x: paddle.fft.rfft(x[:, 0]).real(),
    "squeeze": lambda x: x.squeeze() * 2,
    "squeeze of an axis": lambda x: x.squeeze(0) * 2,
    "frames": lambda x: paddle.signal.frame(x[:, 0], 2, 1),
    "joined frames": lambda x: paddle.signal.overlap_add(x, 2),
    "gathered columns": lambda x: paddle.gather(x, paddle.arange(x.shape[0]) // 9, axis=1),
    "index of open length": lambda x: paddle.gather_nd(
        paddle.ones([3] * 8), (x[:, 0] > 9).astype("int64").unsqueeze(0)
    ),
    "covariance": lambda x: paddle.linalg.cov(x),
    "largest": lambda x: paddle.topk(x, 2)[0],
    "weighted loss": lambda x: F.cross_entropy(x, (x[:, 0] > 0.5).astype("int64"), weight=paddle.ones([6])),
    "loss with holes": lambda x: F.cross_entropy(x, (x[:, 0] > 0.5).astype("int64"), ignore_index=0),
    "flat": lambda x: paddle.cumsum(x),
    "joined": lambda x: paddle.concat([x, x[1:]]),
}


@pytest.mark.parametrize("rest", ["mask", "slice"])
@pytest.mark.parametrize("name", SEEN)
def test_shapes_that_the_function_sees(name, rest):
    """Also with one row and none: inferred is what is right for any number, or the call tells."""

    def function(x):
        result = SEEN[name](x[x[:, 0] > 0] if rest == "mask" else x[2:])
        return result, list(result.shape)

    def tried(run, x):
        try:
            result, shape = run(x)
        except (ValueError, IndexError, RuntimeError) as error:
            return type(error).__name__
        return shape, result.shape, result.numpy().tobytes()

    static = sot.to_static(function, min_graph_size=0)
    for rows in (5, 4, 7, 1, 6, 0, 3, 1):
        x = paddle.concat([paddle.rand([rows, 6]) + 0.1, -paddle.ones([2, 6])])
        x = x if rest == "mask" else x.flip(0)
        assert tried(static, x) == tried(function, x)


def test_squeezed_batches_take_no_translation_for_each_size():
    head = paddle.nn.Sequential(paddle.nn.Linear(6, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 1))

    def function(x):
        return F.mse_loss(head(x).squeeze(), x[:, 0])

    static = sot.to_static(function, min_graph_size=0)
    for rows in (4, 5, 6, 7, 1, 8):
        x = paddle.rand([rows, 6])
        assert static(x).item() == function(x).item()
    assert sot.stats(static).translations == 3


def outcome(function, rows):
    try:
        result, gradient = step(function, rows)
    except (ValueError, IndexError, RuntimeError) as error:
        return type(error)
    return result.shape, result.numpy().tobytes(), None if gradient is None else gradient.numpy().tobytes()


def test_what_does_not_compute_with_dims_stays_open():
    def function(x):
        return F.softmax(F.relu(x) @ x.T, axis=-1).mean() + F.mse_loss(x, x * 2) + F.smooth_l1_loss(x, x * 3)

    static = sot.to_static(function, min_graph_size=0)
    for rows in (11, 9, 7, 30, 25):
        assert outcome(static, rows) == outcome(function, rows)
    assert sot.stats(static).translations == 2


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", ["crop", "pad", "pool", "interpolate", "affine_grid", "conv2d_transpose"])
def test_sizes_that_are_no_whole_numbers(name, dtype):
    """Inside a program they end the process."""
    x = paddle.ones([1, 1, 5, 1])

    def function(n):
        return {
            "crop": lambda: paddle.crop(paddle.arange(5.0), [n], [0]),
            "pad": lambda: F.pad(x, [n, 0, 0, 0]),
            "pool": lambda: F.adaptive_avg_pool2d(x, [n, n]),
            "interpolate": lambda: F.interpolate(x, size=[n, n]),
            "affine_grid": lambda: F.affine_grid(paddle.ones([1, 2, 3]), [1, 1, n, n]),
            "conv2d_transpose": lambda: F.conv2d_transpose(x, paddle.ones([1, 1, 2, 2]), output_size=[n, n]),
        }[name]()

    def tried(function):
        try:
            return function(paddle.to_tensor(1, dtype=dtype)).numpy().tobytes()
        except (TypeError, ValueError) as error:
            return type(error)

    static = sot.to_static(function, min_graph_size=0)
    assert tried(static) == tried(function)


@pytest.mark.parametrize("dtype", ["float32", "bool"])
@pytest.mark.parametrize("name", ["crop", "offsets", "slice", "strided_slice", "flip", "affine_grid", "pool"])
def test_tensors_of_sizes_that_are_no_whole_numbers(name, dtype):
    """They end the process there, too."""
    x = paddle.ones([2, 2])

    def function(n, sizes):
        return {
            "crop": lambda: paddle.crop(x, n),
            "offsets": lambda: paddle.crop(x, [1, 1], n),
            "slice": lambda: paddle.slice(x, [0, 1], n, [2, 2]),
            "strided_slice": lambda: paddle.strided_slice(x, [0, 1], n, [2, 2], [1, 1]),
            "flip": lambda: paddle.flip(x, n),
            "affine_grid": lambda: F.affine_grid(paddle.ones([1, 2, 3]), sizes),
            "pool": lambda: F.adaptive_avg_pool2d(paddle.ones([1, 1, 2, 2]), n + 1),
        }[name]()

    def tried(function):
        try:
            given = paddle.to_tensor([0, 1], dtype=dtype), paddle.to_tensor([1, 1, 2, 2], dtype=dtype)
            return function(*given).numpy().tobytes()
        except (TypeError, ValueError, OSError) as error:
            return type(error)

    static = sot.to_static(function, min_graph_size=0)
    assert tried(static) == tried(function)


@pytest.mark.parametrize("first", [2, 3])
def test_dims_that_a_function_compares_stay_equal(first):
    """Open dims are all -1 there, and equal: `atan2` computed with the memory behind a smaller tensor."""

    def function(x, y):
        return paddle.atan2(x, y) * 2

    translated = sot.to_static(function, min_graph_size=0)
    for rows, others in [(first, first), (4, 4), (5, 5), (4, 5), (1, 5), (6, 6), (6, 2), (7, 7)]:
        x, y = paddle.rand([rows, 3]), paddle.rand([others, 3])
        outcomes = []
        for run in (function, translated):
            try:
                outcomes.append(run(x, y).numpy().tolist())
            except ValueError as error:
                outcomes.append(str(error).partition("\n")[0])
        assert outcomes[0] == outcomes[1]
    # Any number of rows takes one translation.
    assert sot.stats(translated).translations <= 6


def test_what_is_exported_is_not_guarded(tmp_path):
    """Open dims of an export are as the specification says; nobody checks them later."""

    def function(x, y):
        return paddle.atan2(x, y) * 2

    shapes = [paddle.static.InputSpec([None, 3], "float32", name) for name in "xy"]
    sot.save(function, str(tmp_path / "model"), input_spec=shapes)
    loaded = paddle.jit.load(str(tmp_path / "model"))
    for rows in (2, 5):
        x, y = paddle.rand([rows, 3]), paddle.rand([rows, 3])
        assert (loaded(x, y) == function(x, y)).all()
