"""Loops of more known rounds than branches can stand inside of one another, which a tensor ends."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

DATA = ([0.5, 2.0, 3.0], [-1.0, -2.0, -3.0], [4.0, 100.0, 0.25])


def newton(x):
    y = x.abs() + 1
    for _ in range(60):
        better = 0.5 * (y + x.abs() / y)
        error = (better - y).abs().max()
        y = better
        if error < 1e-4:
            break
    return y


def newton_with_a_count(x):
    y, rounds = x.abs() + 1, -1
    for i in range(2, 100, 2):
        better = 0.5 * (y + x.abs() / y)
        if (better - y).abs().max() < 1e-4:
            rounds = i
            break
        y = better
    return y, rounds


def returned_from_inside(x):
    y = x
    for i in range(1000):
        y = y * 0.9
        if y.abs().max() < 0.5:
            return y, i
    return x * 0, -1


def continued(x):
    total, y = x * 0, x
    for _ in range(40):
        y = y * 0.8
        if y.sum() < 0:
            continue
        total = total + y
        if total.max() > 30:
            break
    return total, y


def left_by_a_number(x):
    for i in range(50):
        x = x + 1
        if i == 30:
            break
    return x


def never_left(x):
    for i in range(30):
        x = x * 0.9 + i
        if x.min() < -1000:
            break
    return x


def two_of_them(x):
    for _ in range(30):
        x = x * 0.9
        for _ in range(30):
            if x.abs().max() < 3:
                break
            x = x * 0.8
        if x.abs().max() < 1:
            break
    return x


FUNCTIONS = [
    newton,
    newton_with_a_count,
    returned_from_inside,
    continued,
    left_by_a_number,
    never_left,
    two_of_them,
]


class Decoder(paddle.nn.Layer):
    """Chooses tokens until all rows have ended."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = paddle.nn.Embedding(7, 4), paddle.nn.Linear(4, 7)
        self.cell = paddle.nn.GRUCell(4, 4)

    def forward(self, h):
        token = paddle.ones([h.shape[0]], "int64")
        ended = paddle.zeros([h.shape[0]], "bool")
        tokens = []
        for _ in range(64):
            y, h = self.cell(self.embedding(token), h)
            token = paddle.where(ended, 0, self.out(y).argmax(-1))
            tokens.append(token)
            ended = paddle.logical_or(ended, token < 2)
            if ended.all():
                break
        return paddle.stack(tokens, 1)


def decoders():
    for seed in range(6):
        paddle.seed(seed)
        yield Decoder(), paddle.rand([3, 4]) * 8 - 4


def test_tokens_are_chosen_until_all_have_ended():
    sizes = set()
    for net, h in decoders():
        want = net(h)
        sizes.add(want.shape[1])
        static = sot.to_static(net, full_graph=True, min_graph_size=0)
        with paddle.no_grad():
            for _ in range(2):
                assert static(h).tolist() == want.tolist()
        assert sot.stats(static).graphs == 1
    assert len(sizes) > 1


def test_a_file_chooses_the_same_tokens(tmp_path):
    for at, (net, h) in enumerate(decoders()):
        net.eval()
        path = str(tmp_path / f"f{at}")
        sot.save(net, path, [InputSpec([None, 4], "float32", "h")])
        loaded = paddle.jit.load(path)
        for rows in (h, h[:1], paddle.concat([h, h])):
            assert loaded(rows).tolist() == net(rows).tolist()


def observe(function, numbers):
    x = paddle.to_tensor(numbers, stop_gradient=False)
    result = paddle.utils.flatten(function(x))
    tensors = [it for it in result if isinstance(it, paddle.Tensor)]
    sum(it.sum() for it in tensors).backward()
    numbers = [it for it in result if not isinstance(it, paddle.Tensor)]
    return [it.numpy() for it in (*tensors, x.grad)], numbers


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda it: it.__name__)
def test_is_one_graph(function):
    static = sot.to_static(function, full_graph=True, min_graph_size=0)
    for numbers in (*DATA, *DATA):
        (want, counts), (got, found) = observe(function, numbers), observe(static, numbers)
        assert [(type(it), it) for it in counts] == [(type(it), it) for it in found]
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert sot.stats(static).graphs == 1


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda it: it.__name__)
def test_is_in_a_file(function, tmp_path):
    path = str(tmp_path / "f")
    sot.save(function, path, [InputSpec([3], "float32", "x")])
    loaded = paddle.jit.load(path)
    for numbers in DATA:
        x = paddle.to_tensor(numbers)
        for got, want in zip(*map(paddle.utils.flatten, (loaded(x), function(x))), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)


def test_loops_that_no_tensor_ends_are_unrolled():
    static = sot.to_static(left_by_a_number, full_graph=True, min_graph_size=0)
    static(paddle.ones([3]))
    assert sot.stats(static).ops >= 31
