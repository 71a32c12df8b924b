"""Exports of functions in which lists grow over open dims, in `paddle.jit.load` and `paddle.inference`."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def steps(x):
    out = []
    h = x[:, 0] * 0
    for t in range(x.shape[1]):
        h = (h + x[:, t]) / 2
        out.append(h)
    return paddle.stack(out, axis=1), h


def from_the_first(x):
    out = [x[:, 0]]
    for t in range(x.shape[1] - 1):
        out.append(out[-1] + x[:, t + 1])
    return out[-1], out[0] + len(out)


def chosen_rows(x):
    out = []
    for t in range(x.shape[1]):
        if x[:, t].sum() > 0:
            out.append(x[:, t])
    out.append(x[:, 0])
    return paddle.concat(out, axis=0)


def until(x):
    out, i = [], paddle.zeros([], "int64")
    while x[:, i % x.shape[1]].sum() > -100 and i < 4:
        out.append(x[:, 0] * i)
        i += 1
    return paddle.stack(out)


def predicted(path, x, optimizes, onednn):
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    config.disable_gpu()
    config.switch_ir_optim(optimizes)
    if not onednn:
        config.disable_mkldnn()
    return [it.numpy() for it in inference.create_predictor(config).run([x])]


@pytest.mark.parametrize("function", [steps, from_the_first, chosen_rows, until])
def test_open_dims(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, input_spec=[InputSpec([None, None, 3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for sizes in ((1, 1), (2, 3), (4, 5), (3, 7)):
        x = paddle.to_tensor(np.random.default_rng(0).standard_normal([*sizes, 3]).astype("float32"))
        wanted = [it.numpy() for it in paddle.utils.flatten(function(x))]
        found = [[it.numpy() for it in paddle.utils.flatten(loaded(x))]]
        hows = [(False, False), (True, False), (True, True)]
        found += [predicted(path, x, *how) for how in hows]
        for arrays in found:
            for one, other in zip(wanted, arrays, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_a_list_cannot_be_a_result():
    def f(x):
        out = []
        for t in range(x.shape[0]):
            out.append(x[t])
        return out

    with pytest.raises(sot.GraphBreakError, match=r"return paddle.stack\(\) or paddle.concat\(\) of it"):
        sot.save(f, "never", input_spec=[InputSpec([None, 3], "float32", "x")])
