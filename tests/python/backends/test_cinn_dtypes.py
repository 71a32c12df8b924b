"""The CINN-prim backend next to eager mode: the dtypes of results, whatever Paddle's rules make of them."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

# What Paddle computes does not depend on the version of Python.
pytestmark = pytest.mark.default_python

ROWS = [[1, 0, 2], [0, 0, 3]]
CASES = {
    "any": lambda x: x.any(),
    "any along an axis": lambda x: x.any(0),
    "any with its axis": lambda x: x.any(-1, keepdim=True),
    "as a condition": lambda x: paddle.where((x * 2).any(0), x, x - 1),
    "negated": lambda x: ~(x * 2).any(1),
    "a sum of them": lambda x: (x + x).any(1).sum(),
    "all": lambda x: x.all(1),
    "mean": lambda x: x.astype("float32").mean().astype(x.dtype) + x,
    "count": lambda x: x.count_nonzero(0),
}


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
@pytest.mark.parametrize("name", CASES)
def test_are_those_of_eager_mode(name, dtype):
    function = CASES[name]
    translated = sot.to_static(function, backend="cinn", min_graph_size=0)
    for rows in (ROWS, ROWS[::-1], [[0, 0, 0], [0, 2, 0]]):
        x = paddle.to_tensor(rows).astype(dtype)
        try:
            expected = function(x)
        except Exception as error:  # noqa: BLE001 - operators that do not take this dtype
            with pytest.raises(type(error)):
                translated(x)
            continue
        found = translated(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
