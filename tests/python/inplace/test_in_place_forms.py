"""Operations in place on tensors that the function made: the operation without side effect takes their place."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate


def made(dtype, seed=0):
    numbers = np.random.RandomState(seed).rand(3, 4) * 4 - 2
    if dtype == "positive":
        return paddle.to_tensor((abs(numbers) * 0.4 + 0.05).astype("float32"))
    if dtype == "int64":
        return paddle.to_tensor((abs(numbers) * 5 + 1).astype("int64"))
    if dtype == "bool":
        return paddle.to_tensor(numbers > 0)
    return paddle.to_tensor(numbers.astype(dtype))


ALONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "digamma", "erfinv", "frac", "gammaln", "i0"),
    *("lgamma", "log", "log10", "log1p", "log2", "logit", "sin", "sinh", "tan", "trunc", "zero"),
)
OTHERS = {
    "copysign": [made("float32", 1)],
    "div": [made("float32", 1)],
    "floor_divide": [made("float32", 1)],
    "floor_mod": [made("float32", 1)],
    "hypot": [made("float32", 1)],
    "lerp": [made("float32", 1), 0.5],
    "ldexp": [made("int64", 1)],
    "mod": [made("float32", 1)],
    "mul": [made("float32", 1)],
    "polygamma": [1],
    "multigammaln": [2],
    "nan_to_num": [],
    "pow": [2],
    "remainder": [made("float32", 1)],
    "sub": [made("float32", 1)],
    "fill": [3.0],
    "cumsum": [0],
    "addmm": [paddle.ones([3, 2]), paddle.ones([2, 4])],
    "cast": ["float64"],
    "clamp": [-1.0, 1.0],
    "cumprod": [1],
    "equal": [made("float32", 1)],
    "fill_diagonal": [2.0],
    "fill_diagonal_tensor": [paddle.ones([3])],
    "flatten": [],
    "greater_than": [made("float32", 1)],
    "less_equal": [made("float32", 1)],
    "not_equal": [made("float32", 1)],
    "renorm": [1.0, -1, 2.05],
    "reshape": [[4, 3]],
    "scatter_add": [0, paddle.to_tensor([[0, 1, 1, 2]]), made("float32", 2)[:1]],
    "squeeze": [0],
    "t": [],
    "transpose": [[1, 0]],
    "unsqueeze": [1],
    "index_add": [paddle.to_tensor([0, 1]), 0, made("float32", 2)[:2]],
    "index_fill": [paddle.to_tensor([0, 1]), 0, 1.0],
    "index_put": [(paddle.to_tensor([0, 2]),), made("float32", 2)[:2]],
    "masked_scatter": [made("bool"), made("float32", 2)],
    "put_along_axis": [paddle.to_tensor([[0], [1], [1]]), 9.0, 1],
    "scatter": [paddle.to_tensor([0, 2]), made("float32", 2)[:2]],
}
WHOLE = {
    "bitwise_and": [made("int64", 1)],
    "bitwise_invert": [],
    "bitwise_left_shift": [paddle.full([3, 4], 2, "int64")],
    "bitwise_not": [],
    "bitwise_or": [made("int64", 1)],
    "bitwise_right_shift": [paddle.full([3, 4], 1, "int64")],
    "bitwise_xor": [made("int64", 1)],
    "fill": [7],
    "gcd": [made("int64", 1)],
    "lcm": [made("int64", 1)],
    "remainder": [made("int64", 1)],
    "zero": [],
}
BOOLS = {
    "logical_and": [made("bool", 1)],
    "logical_not": [],
    "logical_or": [made("bool", 1)],
    "logical_xor": [made("bool", 1)],
    "zero": [],
}
CASES = [
    *((name, dtype, []) for name in ALONE for dtype in ("float32", "float64", "positive")),
    *((name, "float32", given) for name, given in OTHERS.items()),
    *((name, "int64", given) for name, given in WHOLE.items()),
    *((name, "bool", given) for name, given in BOOLS.items()),
]


@pytest.mark.parametrize(("name", "dtype", "given"), CASES)
def test_they_are_captured(name, dtype, given):
    def changes(x):
        h = x.clone()
        same = getattr(h, f"{name}_")(*given)
        return h, same is h

    translated = translate(changes)
    for _ in range(2):
        x = made(dtype)
        (found, is_it), (expected, was_it) = translated(x), changes(x)
        assert is_it == was_it is True and found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        np.testing.assert_array_equal(x.numpy(), made(dtype).numpy())
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def chosen(x):
    h = x.clone()
    same = paddle.where_(x > 0, h, x * 2)
    return h, same is h


def set_by_value(x):
    h = paddle.zeros_like(x)
    same = h.set_value(x * 2)
    return h * 2, same is None


def reshaped_and_used(x):
    h = x * 2
    before = h.sum(0)
    h.reshape_([2, 6])
    h.add_(paddle.ones([2, 6]))
    return h.unsqueeze_(0) + 1, before, h.shape


@pytest.mark.parametrize("function", [chosen, set_by_value, reshaped_and_used])
def test_others_are_captured(function):
    translated = translate(lambda x: function(x))
    for _ in range(2):
        assert str(translated(made("float32"))) == str(function(made("float32")))
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def with_view(x):
    h = x.clone()
    row = h[0]
    h.fill_(2.0)
    return h, row


def of_a_part(x):
    h = x.clone()
    h.index_put_((paddle.to_tensor([0]),), h[1:2])
    return h


def with_itself(x):
    h = x.clone()
    h.index_add_(paddle.to_tensor([1, 2, 0]), 0, h)
    return h


def reshaped_with_view(x):
    h = x.clone()
    row = h[0]
    h.reshape_([4, 3])
    h.add_(paddle.ones([4, 3]))
    return h, row


def chosen_for_a_larger_shape(x):
    h = x[:1].clone()
    made = paddle.where_(x > 0, h, x * 2)
    return h, made, made is h


def set_from_a_view(x):
    h = x.clone()
    h.set_value(h[::1] * 1)
    h.copy_(h.reshape([3, 4]), True)
    return h


def on_an_argument(x):
    x.zero_()
    return x + 1


def of_another_dtype(x):
    h = x.clone()
    h.fill_(2)
    h.mul_(paddle.ones([3, 4]))
    return h


LEFT = {
    "a view of it": with_view,
    "its own rows": of_a_part,
    "itself": with_itself,
    "a view of what is reshaped": reshaped_with_view,
    "a larger shape": chosen_for_a_larger_shape,
    "what it was": set_from_a_view,
    "an argument": on_an_argument,
    "numbers of another kind": of_another_dtype,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_shares_numbers_is_as_in_eager_mode(name):
    function = LEFT[name]
    translated = translate(lambda x: function(x))
    for _ in range(2):
        one, other = made("float32"), made("float32")
        assert str(translated(one)) == str(function(other)) and str(one) == str(other)


TRAINED = {
    "log": lambda x: (x.abs() + 1).log_(),
    "pow": lambda x: (x * 2).pow_(2),
    "cumsum": lambda x: (x * 2).cumsum_(0),
    "fill": lambda x: (x * 2).fill_(1.0) * x,
    "fill_diagonal": lambda x: (x * 2).fill_diagonal_(1.0) * x,
    "reshape": lambda x: (x * 2).reshape_([2, 6]) ** 2,
    "reshape of what its maker keeps": lambda x: x.exp().reshape_([2, 6]) ** 2,
    "squeeze": lambda x: (x * 2).squeeze_(0) ** 2,
    "t": lambda x: (x * 2).t_() ** 2,
    "transpose": lambda x: (x * 2).transpose_([1, 0]) @ x,
    "cast": lambda x: (x * 2).cast_("float64") ** 2,
    "flatten": lambda x: (x * 2).flatten_().cumsum(),
    "equal": lambda x: (x * 2).equal_(x).astype("float32") * x,
    "where": lambda x: paddle.where_(x > 0, x * 2, x * 3),
    "set_value": lambda x: (lambda h: (h.set_value(x * 3), h)[1])(x * 2),
    "set_value of a cut one": lambda x: (lambda h: (h.set_value(x * 3), h * x)[1])(paddle.zeros_like(x)),
    "copy": lambda x: (x * 2).copy_(x * 3, True),
    "zero": lambda x: (x * 2).zero_() + x,
    "kept": lambda x: (lambda h: (h.exp(), h.sin_())[0])(x * 2),
    "read before": lambda x: (lambda h: (h * h, h.cos_())[0])(x * 2),
}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name):
    function = TRAINED[name]
    translated = translate(lambda x: function(x))

    def gradient(of):
        x = made("float32")
        x.stop_gradient = False
        try:
            y = of(x)
            y.sum().backward()
        except RuntimeError as error:
            return type(error)
        return y.tolist(), y.stop_gradient, None if x.grad is None else x.grad.tolist()

    assert gradient(translated) == gradient(function)
