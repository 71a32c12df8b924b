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


def taken_out(x):
    out = [x[:, 0] * 0]
    for t in range(x.shape[1]):
        out.append(x[:, t])
    last, first = out.pop(), out.pop(0)
    return paddle.stack([last, first]), len(out)


def parts(x):
    out = [x[:, 0]]
    for t in range(x.shape[1]):
        out.append(x[:, t] * 2)
    kept = out[1:]
    out.append(x[:, 0] * 3)
    return paddle.stack(kept), paddle.concat(out[::-1]), paddle.stack(out[-2:]), len(kept[3:])


def best_path(x):
    score, back = x[:, 0], []
    for t in range(1, x.shape[1]):
        total = score.unsqueeze(2) + score.unsqueeze(1) * 0.3
        back.append(total.argmax(1))
        score = total.max(1) + x[:, t]
    best = score.argmax(-1)
    path = [best]
    for places in reversed(back):
        best = paddle.take_along_axis(places, best.unsqueeze(1), 1).squeeze(1)
        path.append(best)
    return paddle.stack(path[::-1], 1)


def backwards(x):
    state = x[:, 0] * 0
    for t in reversed(range(x.shape[1])):
        state = state * 0.5 + x[:, t] * t
    for t in reversed(range(x.shape[1] - 1, 0, -1)):
        state = state - x[:, t]
    return state


def arrays(result):
    return [np.asarray(it) for it in paddle.utils.flatten(result)]


def predicted(path, x, optimizes, onednn):
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    config.disable_gpu()
    config.switch_ir_optim(optimizes)
    if not onednn:
        config.disable_mkldnn()
    return [it.numpy() for it in inference.create_predictor(config).run([x])]


GROW = [steps, from_the_first, chosen_rows, until]
SHRINK = [taken_out, parts, best_path, backwards]


@pytest.mark.parametrize("function", GROW + SHRINK)
def test_open_dims(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, input_spec=[InputSpec([None, None, 3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for sizes in ((1, 1), (2, 3), (4, 5), (3, 7)):
        x = paddle.to_tensor(np.random.default_rng(0).standard_normal([*sizes, 3]).astype("float32"))
        wanted = arrays(function(x))
        found = [arrays(loaded(x))]
        hows = [(False, False), (True, False), (True, True)]
        found += [predicted(path, x, *how) for how in hows]
        for result in found:
            for one, other in zip(wanted, result, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", SHRINK)
def test_calls_of_changing_sizes_are_one_graph(function):
    translated = sot.to_static(function, full_graph=True, dynamic=True)
    for sizes in ((1, 1), (2, 3), (4, 5), (3, 7)):
        x = paddle.to_tensor(np.random.default_rng(0).standard_normal([*sizes, 3]).astype("float32"))
        for one, other in zip(arrays(function(x)), arrays(translated(x)), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_nothing_is_taken_out_of_an_empty_list(tmp_path):
    """As in Python; a program fails there."""

    def function(x):
        out = []
        for row in x:
            if row.sum() > 100:
                out.append(row)
        return out.pop()

    sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, 3], "float32", "x")])
    loaded = paddle.jit.load(str(tmp_path / "m"))
    x = paddle.ones([2, 3]) * 50
    assert loaded(x).tolist() == function(x).tolist()
    with pytest.raises(IndexError):
        function(x * 0)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        loaded(x * 0)


def test_what_is_taken_out_in_each_round_is_refused():
    def function(x):
        out = [x[0], x[0]]
        for row in x:
            out.append(row)
            if row.sum() > 0:
                out.pop()
        return paddle.stack(out)

    with pytest.raises(sot.GraphBreakError):
        sot.save(function, "never", input_spec=[InputSpec([None, 3], "float32", "x")])


def test_a_list_cannot_be_a_result():
    def f(x):
        out = []
        for t in range(x.shape[0]):
            out.append(x[t])
        return out

    with pytest.raises(sot.GraphBreakError, match=r"return paddle.stack\(\) or paddle.concat\(\) of it"):
        sot.save(f, "never", input_spec=[InputSpec([None, 3], "float32", "x")])


def test_pieces_of_other_sizes_are_in_no_file(tmp_path):
    """The tensors of a list that grows are rows of one: a file of it would fail where the last piece is shorter."""

    def function(x):
        pieces = []
        for start in range(0, x.shape[0], 2):
            piece = x[start : start + 2]
            pieces.append(piece - piece.mean(0))
        return paddle.concat(pieces)

    with pytest.raises(RuntimeError, match="raises at x"):
        sot.save(function, str(tmp_path / "f"), [InputSpec([None, 4], "float32", "x")])
