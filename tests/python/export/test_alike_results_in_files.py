"""Files whose results are one tensor, or are computed alike: `paddle.inference` finds each of them."""

import paddle
import paddle_sot_rs as sot
import pytest
from export.test_onednn_in_predictors import equals_eager
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

paddle.seed(0)
LAYER = nn.Linear(6, 6)
RESULTS = {
    "input": lambda x: (x, x, [x]),
    "result": lambda x: (lambda y: {"a": y, "b": [y, y]})(LAYER(x)),
    "parameter": lambda x: (LAYER(x), LAYER.weight, LAYER.weight),
    "constants": lambda x: (LAYER(x), paddle.ones([2]), paddle.ones([2])),
    "alike": lambda x: (F.relu(x), F.relu(x), LAYER(x), LAYER(x)),
    "other order": lambda x: (x + LAYER(x), LAYER(x) + x),
    "nothing done": lambda x: (x, x * 1.0, x + 0, F.dropout(x, 0.5, training=False), x.astype("float32"), x.clone()),
    "behind nothing": lambda x: (F.relu(x * 1.0), F.relu(x), F.relu(x + 0)),
    "scaled": lambda x: (x, F.dropout(x, 0.25, training=False, mode="downscale_in_infer"), x * 0.75, x),
    "several": lambda x: (*paddle.topk(x, 2), *paddle.topk(x, 2), x.argmax(-1), x.argmax(-1)),
    "casts": lambda x: (x.astype("float64"), x.astype("float64"), x > 0, x > 0),
    "views": lambda x: (x.flatten(), x.flatten(), x[:, 1:], x[:, 1:], x.unsqueeze(0), x.unsqueeze(0)),
    "many": lambda x: [LAYER(x)] * 6 + [x] * 5,
}


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_is_found(name, tmp_path):
    equals_eager(RESULTS[name], tmp_path, [(2, 6), (1, 6), (5, 6)], [None, 6])


def test_loaded_files_have_them_too(tmp_path):
    path = str(tmp_path / "m")
    x = paddle.randn([3, 6])
    for function in RESULTS.values():
        sot.save(function, path, input_spec=[InputSpec([None, 6], "float32", "x")])
        expected = paddle.utils.flatten(function(x))
        for found, wanted in zip(paddle.jit.load(path)(x), expected, strict=True):
            assert found.dtype == wanted.dtype
            assert paddle.allclose(found.astype("float32"), wanted.astype("float32"), atol=1e-6)


def test_results_of_random_numbers_differ(tmp_path):
    path = str(tmp_path / "m")
    sot.save(
        lambda x: (x + paddle.rand([4]), x + paddle.rand([4]), paddle.randn([4]), paddle.randn([4])),
        path,
        input_spec=[InputSpec([None, 4], "float32", "x")],
    )
    found = [each.numpy().tolist() for each in paddle.jit.load(path)(paddle.ones([16, 4]))]
    assert all(one != other for at, one in enumerate(found) for other in found[:at])


def test_only_alike_results_cost_copies(tmp_path):
    path = tmp_path / "m"
    for function, copies in [(lambda x: (x.exp(), x.sin(), x.exp()), 1), (lambda x: (x.exp(), x.sin(), x.tan()), 0)]:
        sot.save(function, str(path), input_spec=[InputSpec([None, 4], "float32", "x")])
        assert path.with_suffix(".json").read_text().count("assign") == copies
