"""`paddle.inference` with oneDNN on: what its kernels make of other dtypes than float32, and of no dims."""

import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import predictor
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

FUNCTIONS = {
    "sum": ("float32", lambda x: x.sum(1, dtype="float64")),
    "sum of all": ("float32", lambda x: paddle.sum(x * 2, dtype="int64") + 1),
    "sum that keeps dims": ("float32", lambda x: x.sum([1, 2], dtype="float64", keepdim=True)),
    "mask": ("uint8", lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
    "mask of a size": ("uint8", lambda x: F.interpolate(x, size=[3, 5], mode="nearest")),
    "halves": ("float16", lambda x: F.interpolate(x, scale_factor=2, mode="nearest")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_dtype_of_eager_mode(name, tmp_path):
    """The kernel of `sum` had that of its operand; that of copies of the nearest raised."""
    dtype, function = FUNCTIONS[name]
    path = str(tmp_path / "m")
    sot.save(function, path, input_spec=[InputSpec([None, 2, 4, 4], dtype, "x")])
    for onednn in (False, True):
        run = predictor(path, onednn)
        for rows in (2, 1, 3):
            x = (paddle.arange(rows * 32).reshape([rows, 2, 4, 4]) * 2 + 1).astype(dtype)
            (found,), wanted = run(x), function(x).numpy()
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert (found == wanted).all()


WITHOUT_DIMS = {
    "sum of several": lambda x: paddle.add_n([x.mean(), x.max(), x.sum()]),
    "sum of one": lambda x: paddle.add_n([x.mean()]) * 2,
    "flat": lambda x: x.mean().flatten() + 1,
    "losses": lambda x: [F.mse_loss(x, x * 2) * 0.5 + x.abs().mean(), paddle.add_n([x.sum(), x.sum()])],
}


@pytest.mark.parametrize("name", WITHOUT_DIMS)
def test_tensors_without_dims(name, tmp_path):
    """The kernels of `add_n` and `flatten` raised."""
    function, path = WITHOUT_DIMS[name], str(tmp_path / "m")
    sot.save(function, path, input_spec=[InputSpec([None, 4], "float32", "x")])
    for onednn in (False, True):
        run = predictor(path, onednn)
        for rows in (2, 1, 3):
            x = paddle.arange(rows * 4, dtype="float32").reshape([rows, 4]) / 8
            for found, wanted in zip(run(x), paddle.utils.flatten(function(x)), strict=True):
                assert found.shape == tuple(wanted.shape)
                assert abs(found - wanted.numpy()).max() < 1e-5
