"""Exports in which items of tensors are set by indices, of which there may be an open number."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def rows(x, at):
    y = x * 1
    y[at] = 3.0
    return y


def rows_of_a_tensor(x, at):
    y = x * 1
    y[at] = x[at] * 2
    return y


def columns(x, at):
    y = x * 1
    y[:, at] = -1.0
    return y


def columns_of_a_tensor(x, at):
    y = paddle.zeros_like(x)
    y[:, at] = x[:, at] + 1
    return y


def found_columns(x, at):
    y = x * 1
    y[:, paddle.nonzero(x[0] > -9).squeeze(1)] = 0.0
    return y + at.sum()


FUNCTIONS = (rows, rows_of_a_tensor, columns, columns_of_a_tensor, found_columns)
SIZES = ((3, 4, 2), (1, 1, 1), (5, 3, 3), (2, 6, 1), (4, 4, 4), (6, 5, 2))


def predictor(path, onednn):
    config = inference.Config(f"{path}.json", "")
    config.disable_glog_info()
    config.disable_gpu()
    if not onednn:
        config.disable_mkldnn()
    return inference.create_predictor(config)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_open_numbers_of_indices(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, input_spec=[InputSpec([None, None], "float32", "x"), InputSpec([None], "int64", "at")])
    loaded = paddle.jit.load(path)
    predictors = [predictor(path, onednn) for onednn in (False, True)]
    for a, b, n in SIZES * 3:
        x = paddle.to_tensor(np.random.default_rng(a * b).standard_normal([a, b]).astype("float32"))
        at = paddle.arange(min(n, a, b))
        wanted = function(x, at).numpy()
        for found in (loaded(x, at), *(it.run([x, at])[0] for it in predictors)):
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_no_index_is_an_error_as_in_eager_mode(tmp_path):
    path = str(tmp_path / "f")
    sot.save(rows, path, input_spec=[InputSpec([None, 2], "float32", "x"), InputSpec([None], "int64", "at")])
    loaded = paddle.jit.load(path)
    x, none = paddle.ones([3, 2]), paddle.zeros([0], "int64")
    with pytest.raises(Exception):  # noqa: B017 - Paddle's own
        rows(x, none)
    with pytest.raises(Exception):  # noqa: B017
        loaded(x, none)


@pytest.mark.parametrize("function", (columns, columns_of_a_tensor, rows))
def test_calls_are_one_graph(function):
    compiled = sot.to_static(function, full_graph=True, min_graph_size=0)
    with paddle.no_grad():
        for a, b, n in SIZES[:3]:
            x, at = paddle.rand([a, b]), paddle.arange(min(n, a, b))
            np.testing.assert_array_equal(compiled(x, at).numpy(), function(x, at).numpy())
    assert sot.stats(compiled).graph_breaks == []
