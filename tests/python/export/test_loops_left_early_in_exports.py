"""Exports of loops over open dims that `break` or `return` leaves, in `paddle.jit.load` and `paddle.inference`."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference, nn
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def returned(x):
    h = x[:, 0]
    for t in range(x.shape[1]):
        h = h + x[:, t]
        if h.sum() > 3:
            return h
    return h * 0


def returned_with_a_number(x):
    h = x[:, 0]
    for t in range(1, x.shape[1]):
        h = h * 0.5 + x[:, t]
        if h.max() > 2:
            return h, t
    return h, -1


def left(x):
    h = x[:, 0]
    for t in range(x.shape[1]):
        h = h + x[:, t]
        if h.sum() > 3:
            break
    else:
        h = h * 0
    return h


def rows(x):
    h = x[0]
    for row in x:
        if row.sum() > 4:
            break
        h = h + row
    return h


def a_list_that_is_left(x):
    out, h = [], x[:, 0]
    for t in range(x.shape[1]):
        h = h + x[:, t]
        out.append(h)
        if h.sum() > 3:
            break
    return paddle.stack(out, 1)


def a_list_that_is_returned(x):
    out, h = [], x[:, 0]
    for t in range(x.shape[1]):
        h = h + x[:, t]
        out.append(h)
        if h.sum() > 3:
            return paddle.stack(out, 1)
    return paddle.stack(out, 1) * 0


def nothing_found(x):
    out = []
    for t in range(x.shape[1]):
        if x[:, t].sum() > 1:
            out.append(x[:, t])
    if not out:
        return x[:, :1]
    return paddle.stack(out, 1)


def states(x):
    state = {"h": x[:, 0], "all": [x[:, 0] * 0, x[:, 0]]}
    for t in range(x.shape[1]):
        if state["h"].sum() > 9:
            break
        state = {"h": state["h"].tanh() + x[:, t], "all": [s * 0.5 + x[:, t] for s in state["all"]]}
    return state["h"], paddle.stack(state["all"])


def the_best(x):
    best = None
    for t in range(x.shape[1]):
        if best is None or x[:, t].sum() > best.sum():
            best = x[:, t]
    return best


def the_best_or_the_first(x):
    best = the_best(x)
    return x[:, 0] if best is None else best


def two_tests(x):
    n, i = x.sum(), 0
    while n < -4 or 0 <= i < x.shape[1]:
        n = n + 1
        i += 1
    return n


class Greedy(nn.Layer):
    """Decodes with a cache that a `while` hands on, until all rows have ended."""

    def __init__(self):
        super().__init__()
        self.embedding, self.query = nn.Embedding(11, 8), nn.Linear(8, 8)
        self.key, self.value, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 11)

    def heads(self, x):
        return x.reshape([x.shape[0], x.shape[1], 2, 4]).transpose([0, 2, 1, 3])

    def step(self, token, cache):
        x = self.embedding(token).unsqueeze(1)
        k = paddle.concat([cache[0], self.heads(self.key(x))], axis=2)
        v = paddle.concat([cache[1], self.heads(self.value(x))], axis=2)
        weights = nn.functional.softmax(paddle.matmul(self.heads(self.query(x)), k, transpose_y=True), -1)
        y = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([x.shape[0], 1, 8])
        return self.out(y).squeeze(1), (k, v)

    def forward(self, ids):
        x = self.embedding(ids)
        first = (self.heads(self.key(x)), self.heads(self.value(x)))
        caches = [first, (first[1], first[0])]
        token, out, i = ids[:, -1], [], paddle.zeros([], "int64")
        ended = paddle.zeros([ids.shape[0]], "bool")
        while i < 6 and not ended.all():
            new, total = [], 0
            for cache in caches:
                logits, cache = self.step(token, cache)
                total = total + logits
                new.append(cache)
            caches, token = new, total.argmax(-1)
            out.append(token)
            ended = paddle.logical_or(ended, token == 3)
            i = i + 1
        return paddle.stack(out, 1)


FUNCTIONS = (
    returned,
    returned_with_a_number,
    left,
    rows,
    a_list_that_is_left,
    a_list_that_is_returned,
    nothing_found,
    states,
    the_best_or_the_first,
    two_tests,
)


def arrays(result):
    return [np.asarray(it) for it in paddle.utils.flatten(result)]


def predicted(path, x, onednn):
    parameters = f"{path}.pdiparams"
    config = inference.Config(f"{path}.json", parameters)
    config.disable_glog_info()
    config.disable_gpu()
    if not onednn:
        config.disable_mkldnn()
    return [it.numpy() for it in inference.create_predictor(config).run([x])]


def agree(function, spec, calls, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, input_spec=[spec])
    loaded = paddle.jit.load(path)
    for x in calls:
        wanted = arrays(function(x))
        for result in (arrays(loaded(x)), predicted(path, x, False), predicted(path, x, True)):
            for one, other in zip(wanted, result, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def sequences():
    for seed, sizes in enumerate(((1, 1), (2, 3), (4, 5), (3, 7), (1, 9))):
        yield paddle.to_tensor(np.random.default_rng(seed).standard_normal([*sizes, 3]).astype("float32"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_open_dims(function, tmp_path):
    agree(function, InputSpec([None, None, 3], "float32", "x"), sequences(), tmp_path)


def test_greedy_decoding_hands_on_its_caches(tmp_path):
    paddle.seed(5)
    net = Greedy()
    net.eval()
    calls = [paddle.randint(0, 11, sizes) for sizes in ((2, 3), (1, 1), (4, 5), (3, 2), (1, 8), (5, 1))]
    agree(net, InputSpec([None, None], "int64", "ids"), calls, tmp_path)


class Memory(nn.Layer):
    """Runs a cell from states that it makes for the batch."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 3)

    def forward(self, x):
        state = self.cell.get_initial_states(x)
        for t in range(x.shape[1]):
            y, state = self.cell(x[:, t], state)
            if y.abs().max() > 0.3:
                break
        return state


def test_cells_make_states_for_an_open_batch(tmp_path):
    paddle.seed(5)
    net = Memory()
    net.eval()
    agree(net, InputSpec([None, None, 3], "float32", "x"), sequences(), tmp_path)


def test_none_is_no_result_of_a_file():
    with pytest.raises(sot.GraphBreakError, match="returns a tensor or None"):
        sot.save(the_best, "never", input_spec=[InputSpec([None, None, 3], "float32", "x")])
