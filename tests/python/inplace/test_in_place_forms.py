"""Operations in place on tensors that the function made: the operation without side effect takes their place."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate
from paddle import nn


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


# Eager mode keeps a copy of what such a tensor was for its gradient. The copy has no history, which
# second gradients through other forms show: those break the graph.
WITH_HISTORY = {"acos", "cos", "log", "sin", "zero"}
KEEP_COPIES = {
    **{name: [] for name in ALONE if name not in WITH_HISTORY},
    **{name: [] for name in ("abs", "ceil", "floor", "neg", "nan_to_num", "round")},
    **{
        name: OTHERS[name]
        for name in (
            *("clamp", "copysign", "cumprod", "cumsum", "div", "floor_mod", "ldexp", "lerp", "masked_scatter"),
            *("mod", "remainder", "renorm", "scatter", "sub"),
        )
    },
    **{"clip": [-1.0, 1.0], "masked_fill": [made("bool"), 2.0], "tril": [], "triu": [1], "polygamma": [1]},
}


def trained(function, seed):
    x = made("positive", seed)
    x.stop_gradient = False
    y = function(x)
    (y * y).sum().backward()
    return y.numpy().tobytes(), x.grad.numpy().tobytes(), y.stop_gradient, y.is_leaf


@pytest.mark.parametrize("name", KEEP_COPIES)
def test_gradients_go_through_what_was_changed_in_one_graph(name):
    given = KEEP_COPIES[name]

    def changes(x):
        h = x * 1.25
        shift = 2.0 if name in ("acosh", "multigammaln") else 0.0
        h.add_(paddle.full([3, 4], shift))
        getattr(h, f"{name}_")(*given)
        return h * 3

    translated = translate(changes)
    for seed in range(3):
        assert trained(translated, seed) == trained(changes, seed)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("function", [nn.functional.elu_, nn.functional.leaky_relu_, nn.functional.softmax_])
def test_functions_that_change_their_argument_train_in_one_graph(function):
    def changes(x):
        return function(function(x - 0.2) * 2) + x

    translated = translate(changes)
    for seed in range(3):
        assert trained(translated, seed) == trained(changes, seed)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


def test_what_no_gradient_comes_out_of_keeps_the_history_of_what_it_was():
    def changes(x):
        h = x * 2
        h.div_(x.detach(), rounding_mode="trunc")
        return h * x

    translated = translate(changes)
    for seed in range(2):
        assert trained(translated, seed) == trained(changes, seed)


def test_several_changes_one_behind_another_train_in_one_graph():
    def changes(x):
        h = x * 2
        h.add_(x).clip_(0.01, 1.5).atan_()
        h.subtract_(x)
        h.lerp_(x, 0.25)
        h = h * 1
        h.masked_fill_(x > 1.0, 0.5)
        return h.log1p_() * x

    translated = translate(changes)
    for seed in range(3):
        assert trained(translated, seed) == trained(changes, seed)
    assert (sot.stats(translated).graphs, sot.stats(translated).graph_breaks) == (1, [])


@pytest.mark.parametrize("name", ["multiply", "divide", "lerp", "hypot", "copysign"])
def test_one_that_is_its_own_operand_raises_on_the_way_back(name):
    def changes(x):
        h = x * 2
        getattr(h, f"{name}_")(h, *[0.5] * (name == "lerp"))
        return h * 1

    for function in (changes, translate(changes)):
        x = made("positive")
        x.stop_gradient = False
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(x).sum().backward()


SECOND = {
    "abs": lambda h, x: h.abs_(),
    "clip": lambda h, x: h.clip_(0.3, 1.2),
    "divide": lambda h, x: h.divide_(x + 1),
    "leaky_relu": lambda h, x: nn.functional.leaky_relu_(h - 1, 0.1),
    "masked_fill": lambda h, x: h.masked_fill_(x > 0.4, 0.5),
    "neg": lambda h, x: h.neg_(),
    # Eager mode's second gradients forget what the copy was computed from.
    "cos": lambda h, x: h.cos_(),
    "multiply": lambda h, x: h.multiply_(x),
    "sin": lambda h, x: h.sin_(),
    "square": lambda h, x: h.square_(),
}


@pytest.mark.parametrize("name", SECOND)
def test_gradients_of_gradients_are_those_of_eager_mode(name):
    def changes(x):
        return SECOND[name](x * x * 2, x) ** 2 * x

    def second(function):
        x = made("positive")
        x.stop_gradient = False
        (first,) = paddle.grad(function(x).sum(), x, create_graph=True)
        (first * first).sum().backward()
        return first.tolist(), x.grad.tolist()

    for ours, wanted in zip(second(translate(changes)), second(changes), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5)
