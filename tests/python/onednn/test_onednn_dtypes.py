"""Backend `onednn` with dtypes that oneDNN has no kernels of: equal to eager mode, and no call without a program.

Passes join operations by their names. Two in one have no kernel of other dtypes, or one that forgets the second.
"""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle.nn import functional as F
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

if "onednn" not in sot.list_backends():
    pytest.skip("no such backend", allow_module_level=True)

OPTIONS = {"least_elements": 0}
NUMBERS = {
    "activation": lambda x: F.relu(x + x * 2),
    "clip": lambda x: paddle.clip(x * x, 0, 2),
    "multiple": lambda x: (x - 1) * 3 + 1,
    "product": lambda x: x @ x.T + x @ x.T * 2,
    "product of multiples": lambda x: (x * 2) @ (x * 3).T,
    "product of transposed": lambda x: (x[None].transpose([0, 2, 1]) @ x[None]).transpose([1, 0, 2]),
    "softplus": lambda x: F.softplus(x).tanh(),
    "convolution": lambda x: F.relu(F.conv2d(x[None, None], (x + x)[None, None, :2, :2], x[0, :1])),
    "shuffled": lambda x: F.channel_shuffle(x[:, :, None, None], 2),
}
PLACES = {
    "reshaped": lambda x: x.transpose([1, 0]).reshape([-1]),
    "unsqueezed": lambda x: x.transpose([1, 0]).unsqueeze(0),
    "squeezed": lambda x: x.unsqueeze(1).squeeze(1).transpose([1, 0]),
}
CASES = [
    *((name, "float64") for name in NUMBERS),
    *((name, dtype) for name in ("clip", "multiple") for dtype in ("int32", "int64")),
    *((name, dtype) for name in PLACES for dtype in ("float64", "int64", "int32", "int8", "uint8", "bool")),
]


@pytest.mark.parametrize("warm_up", ["known", "open", None])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_all_bits_are_those_of_eager_mode(name, dtype, warm_up):
    function = {**NUMBERS, **PLACES}[name]
    x = (paddle.arange(16, dtype="float32").reshape([4, 4]) - 7).astype(dtype)
    if warm_up is None:
        call = translate(function, backend="onednn", options=OPTIONS)
    else:
        call = sot.freeze(function, [(InputSpec([4, 4] if warm_up == "known" else [None, 4], dtype),)], options=OPTIONS)
    with paddle.no_grad():
        expected = function(x)
        for _ in range(2):
            assert call(x).numpy().tobytes() == expected.numpy().tobytes()
    if warm_up is None:
        stats = sot.stats(call)
        assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def test_operations_of_floats_beside_them_run_on_onednn():
    frozen = sot.freeze(
        lambda x, y: (F.relu(x @ x + 1), y * y + 1), [(paddle.ones([4, 4]), paddle.ones([4], "int64"))], options=OPTIONS
    )
    assert frozen.report[0][0].startswith("oneDNN: ")
    assert [part.tolist() for part in frozen(paddle.eye(4) * 2, paddle.to_tensor([1, 2, 3, 4]))] == [
        (paddle.eye(4) * 4 + 1).tolist(),
        [2, 5, 10, 17],
    ]
