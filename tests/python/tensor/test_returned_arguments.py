"""Calls that answer with their argument in eager mode answer with it when translated, and others do not."""

import paddle
import pytest
from harness import check, tensor, translate

X = tensor(3, 4)
CALLS = [
    "+x", "x.reshape([3, 4])", "x.reshape([-1, 4])", "paddle.reshape(x, [3, 4])", "paddle.reshape(x, (3, 4))",
    "x.astype('float32')", "x.astype(paddle.float32)", "x.cast('float32')", "paddle.cast(x, 'float32')", "x.float()",
    "x.type_as(x)", "x.expand([3, 4])", "x.flatten(0, 0)", "x.squeeze()", "x[:]", "x[...]", "x.transpose([0, 1])",
    "x.tile([1, 1])", "x.detach()", "x.clone()", "paddle.assign(x)", "paddle.concat([x])", "x.contiguous()",
    "paddle.nn.functional.dropout(x, 0.0)", "paddle.nn.functional.dropout(x, 0.5, training=False)",
    "x.broadcast_to([3, 4])", "paddle.flatten(x, 1)", "paddle.atleast_2d(x)", "paddle.broadcast_tensors([x, x])[0]",
    "x.T.T", "paddle.squeeze(x, 1)", "paddle.add_n([x])", "paddle.add_n(x)", "x.conj()",
    "paddle.nn.functional.pad(x, [0, 0])", "x.expand_as(x)", "x.pow(1)", "paddle.einsum('ij->ij', x)",
    "paddle.moveaxis(x, 0, 0)", "x.unsqueeze([])", "paddle.split(x, 1)[0]", "paddle.chunk(x, 1)[0]", "x.cpu()",
    "paddle.repeat_interleave(x, 1, 0)", "paddle.tensor_split(x, 1)[0]", "x.sum(axis=[])", "paddle.flip(x, [])",
    "paddle.nn.Identity()(x)", "x.to('float32')", "paddle.rot90(x, 0)", "paddle.roll(x, 0)", "paddle.clip(x)",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_same_object(call):
    function = eval(f"lambda x: {call}", {"paddle": paddle})
    translated = translate(function)
    for _ in range(2):
        try:
            expected = function(X)
        except Exception as error:  # noqa: BLE001
            with pytest.raises(type(error)):
                translated(X)
            return
        actual = translated(X)
        assert (actual is X) == (expected is X)
        assert bool((actual == expected).all())


def test_a_tuple_that_a_layer_hands_on():
    attention = paddle.nn.MultiHeadAttention(4, 2)
    attention.eval()
    x = tensor(1, 3, 4)
    outside = attention.gen_cache(x, x, paddle.nn.MultiHeadAttention.StaticCache)

    def function(q):
        known = attention.gen_cache(q, q, paddle.nn.MultiHeadAttention.StaticCache)
        grows = attention.gen_cache(q)
        _, same = attention(q, q, q, None, known)
        _, other = attention(q, q, q, None, grows)
        _, given = attention(q, q, q, None, outside)
        return same is known, same.k is known.k, type(same), other is grows, other.k is grows.k, given is outside

    translated = translate(function)
    for _ in range(2):
        assert translated(x) == function(x)


def test_a_list_of_tensors_that_are_what_they_were():
    def function(x):
        y = x * 2
        a, b = paddle.atleast_2d(x, y)
        return a is x, b is y, a + b

    translated = translate(function)
    for _ in range(2):
        (*same, total), (*found, other) = function(X), translated(X)
        assert same == found
        assert total.tolist() == other.tolist()


def _reshape(*args, **kwargs):
    return lambda h: (h.reshape(*args, **kwargs),)


SHAPES = {
    "each": _reshape(2, 3),
    "with a name": lambda h: (paddle.reshape(h, [2, 3], "n"), h.reshape([2, 3], name="n"), h.reshape((2, 3))),
    "by name": lambda h: (
        paddle.reshape(x=h, shape=[2, 3]),
        paddle.reshape(input=h, shape=(2, 3)),
        h.reshape(shape=[2, 3]),
    ),
    "one": lambda h: (h[0].reshape(3), h[0].reshape([3])),
    "other": lambda h: (h.reshape(3, 2), h.reshape(6), h.reshape([-1, 3])),
    "the other way": lambda h: paddle.reshape([2, 3], h),
    "nobody": _reshape(None, [2, 3]),
    "no such name": _reshape(foo=[2, 3]),
    "no such names": lambda h: paddle.reshape(foo=h, bar=[2, 3]),
    "one name too many": _reshape([2, 3], nome=None),
    "twice": lambda h: paddle.reshape([2, 3], x=h),
}


@pytest.mark.parametrize("name", SHAPES)
def test_reshape_to_the_shape_that_a_tensor_has(name):
    call = SHAPES[name]

    def function(x):
        h = x * 1
        return [(same is h, same) for same in call(h)]

    check(function, tensor(2, 3), fallbacks=None)
