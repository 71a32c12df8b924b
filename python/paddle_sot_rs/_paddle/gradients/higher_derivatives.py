"""Gradients of gradients in a program: what eager mode computes them with.

Eager mode has a kernel for the second gradient of some operations, for others it calls plain operations, whose
gradients are theirs. A program asks Paddle's own rules, and the ones below where those make another operation or none.
"""

from paddle import _C_ops
from paddle.base import core

# How often eager mode and a program differentiate an operation to the same digits (the fourth time
# to the last but one): see `test_gradients_of_operators.py`. Others are differentiated once.
_LISTS = (
    (4, "tanh exp silu add subtract multiply scale matmul sum mean transpose reshape expand tile slice assign"),
    (3, "sigmoid sin cos pow maximum minimum bmm squeeze unsqueeze concat index_select gather flip"),
    (2, "square sqrt rsqrt abs softplus elu celu relu leaky_relu divide conv2d"),
)
_TIMES = {name: times for times, names in _LISTS for name in names.split()}

_ORDERS = (("_triple_grad", 3), ("_double_grad", 2), ("_grad_grad", 2), ("_grad", 1))


def may_differentiate(name, again):
    """Whether an operation of a program may be differentiated in there, and what that makes `again`."""
    base, made = name.removeprefix("pd_op."), 0
    for suffix, order in _ORDERS:
        if base.endswith(suffix):
            base, made = base.removesuffix(suffix), order
            break
    if not made and not again:
        return True
    return _TIMES.get(base, 1) - made >= (2 if again else 1)


def _initialized(value):
    return value is not None and value.initialized()


def _zeros(like):
    return _C_ops.full(list(like.shape), 0.0, like.dtype, core.Place())


def _scale(value, factor, bias=0.0):
    return _C_ops.scale(value, factor, bias, True)


def _exp(op, operands, arrived, stops):
    out, grad_out = operands
    (more,) = arrived
    return [None if stops[0] else _C_ops.multiply(grad_out, more), None if stops[1] else _C_ops.multiply(out, more)]


def _silu(op, operands, arrived, stops):
    x, out, grad_out = operands
    (more,) = arrived
    sigmoid = _C_ops.sigmoid(x)
    rest = _scale(sigmoid, -1.0, 1.0)
    slope = _scale(_C_ops.multiply(rest, x), 1.0, 1.0)
    scaled = _C_ops.multiply(more, sigmoid)
    answer = [None, None]
    if not stops[1]:
        answer[1] = _C_ops.multiply(scaled, slope)
    if not stops[0]:
        bend = _scale(_C_ops.subtract(slope, out), 1.0, 1.0)
        answer[0] = _C_ops.multiply(_C_ops.multiply(_C_ops.multiply(scaled, grad_out), bend), rest)
    return answer


def narrow(gradient, like):
    """The gradient of an operand that a product repeats."""
    dims, wide = list(like.shape), list(gradient.shape)
    if dims == wide:
        return gradient
    padded = [1] * (len(wide) - len(dims)) + dims
    axes = [axis for axis, (one, size) in enumerate(zip(padded, wide, strict=True)) if one == 1 and size != 1]
    if axes:
        gradient = _C_ops.sum(gradient, axes, gradient.dtype, True)
    return _C_ops.reshape(gradient, dims)


def _matmul(op, operands, arrived, stops):
    x, y, grad_out = operands
    more_x, more_y = arrived
    attributes = op.attrs()
    across_x, across_y = attributes["transpose_x"], attributes["transpose_y"]
    if min(len(x.shape), len(y.shape)) < 2:
        raise NotImplementedError("second gradients of a product with a vector")
    answer = [None, None, None]
    has_x, has_y = _initialized(more_x), _initialized(more_y)
    if not stops[0] and has_y:
        pair = (more_y, grad_out) if across_x else (grad_out, more_y)
        answer[0] = narrow(_C_ops.matmul(*pair, across_x and across_y, not across_y or across_x), x)
    if not stops[1] and has_x:
        pair = (grad_out, more_x) if across_y else (more_x, grad_out)
        answer[1] = narrow(_C_ops.matmul(*pair, not across_x or across_y, across_x and across_y), y)
    if not stops[2]:
        found = []
        if has_y:
            found.append(_C_ops.matmul(x, more_y, across_x, across_y))
        if has_x:
            found.append(_C_ops.matmul(more_x, y, across_x, across_y))
        if found:
            answer[2] = found[0] if len(found) < 2 else _C_ops.add(*found)
    return answer


def _bmm(op, operands, arrived, stops):
    x, y, grad_out = operands
    more_x, more_y = arrived
    has_x, has_y = _initialized(more_x), _initialized(more_y)
    answer = [None, None, None]
    if not stops[0]:
        answer[0] = _C_ops.matmul(grad_out, _C_ops.transpose(more_y, [0, 2, 1]), False, False) if has_y else _zeros(x)
    if not stops[1]:
        answer[1] = _C_ops.matmul(_C_ops.transpose(more_x, [0, 2, 1]), grad_out, False, False) if has_x else _zeros(y)
    if not stops[2]:
        found = []
        if has_x:
            found.append(_C_ops.matmul(more_x, y, False, False))
        if has_y:
            found.append(_C_ops.matmul(x, more_y, False, False))
        answer[2] = found[0] if len(found) < 2 else _C_ops.add(*found)
    return answer


def _chosen(less, greater):
    """Of `minimum` and `maximum`, by what chooses the first operand and what the second."""

    def rule(op, operands, arrived, stops):
        x, y, _ = operands
        more_x, more_y = arrived
        has_x, has_y = _initialized(more_x), _initialized(more_y)
        if not has_x:
            return [_C_ops.multiply(more_y, _C_ops.cast(greater(x, y), more_y.dtype))]
        mask = _C_ops.cast(less(x, y), more_x.dtype)
        found = _C_ops.multiply(more_x, mask)
        if has_y:
            found = _C_ops.add(found, _C_ops.multiply(more_y, _scale(mask, -1.0, 1.0)))
        return [found]

    return rule


def _subtract(op, operands, arrived, stops):
    more_x, more_y = arrived
    has_x, has_y = _initialized(more_x), _initialized(more_y)
    if has_x and has_y:
        return [_C_ops.subtract(more_x, more_y)]
    found, wide = more_x if has_x else more_y, list(operands[2].shape)
    dims = list(found.shape)
    if not has_x:
        found = _scale(found, -1.0)
    ones = [1] * (len(wide) - len(dims)) + dims
    if len(dims) < len(wide):
        found = _C_ops.reshape(found, ones)
    times = [size if one == 1 and size > 1 else 1 for size, one in zip(wide, ones, strict=True)]
    if any(time > 1 for time in times):
        found = _C_ops.tile(found, times)
    return [found]


def _tanh_again(op, operands, arrived, stops):
    out, grad_out, more = operands
    of_out, of_grad = arrived
    has_out, has_grad = _initialized(of_out), _initialized(of_grad)
    answer = [None, None, None]
    twice = _scale(out, -2.0) if has_out and not (stops[1] and stops[2]) else None
    both = _C_ops.multiply(grad_out, of_out) if has_out and not (stops[0] and stops[2]) else None
    if not stops[0]:
        parts = [both] if has_out else []
        if has_grad:
            parts.append(_C_ops.multiply(out, of_grad))
        scaled = _scale(more, -2.0)
        answer[0] = _C_ops.multiply(scaled, parts[0] if len(parts) < 2 else _C_ops.add(*parts))
    if not stops[1]:
        answer[1] = _C_ops.multiply(_C_ops.multiply(twice, more), of_out) if has_out else _zeros(out)
    if not stops[2]:
        parts = []
        if has_grad:
            parts.append(_C_ops.multiply(_scale(_C_ops.multiply(out, out), -1.0, 1.0), of_grad))
        if has_out:
            parts.append(_C_ops.multiply(twice, both))
        answer[2] = parts[0] if len(parts) < 2 else _C_ops.add(*parts)
    return answer


def _add_again(op, operands, arrived, stops):
    """Eager mode goes to the second operand first."""
    (more,) = arrived
    answer = [None, None]
    for at in (1, 0):
        if not stops[at]:
            answer[at] = narrow(more, operands[2 + at])
    return answer


def _multiply_again(op, operands, arrived, stops):
    x, y, grad_out, more_x, more_y = operands
    of_x, of_y, of_out = arrived

    def sum_of(*products):
        found = [_C_ops.multiply(*pair) for pair in products if all(map(_initialized, pair))]
        if len(found) > 1:
            return _C_ops.add(*found)
        return found[0] if found else None

    products = (
        [(more_y, of_out)],
        [(more_x, of_out)],
        [(more_y, of_x), (more_x, of_y)],
        [(grad_out, of_y), (y, of_out)],
        [(grad_out, of_x), (x, of_out)],
    )
    answer = []
    for operand, pairs, stop in zip(operands, products, stops, strict=True):
        found = None if stop else sum_of(*pairs)
        answer.append(None if found is None else narrow(found, operand))
    return answer


def _reshape(op, operands, arrived, stops):
    (more,) = arrived
    return [_C_ops.reshape(more, list(operands[1].shape))]


def _product_alone(x, y, gradient):
    return narrow(_C_ops.multiply(x, gradient), y)


def _sum_alone(x, y, gradient):
    return narrow(gradient, y) if list(y.shape) != list(gradient.shape) else _C_ops.assign(gradient)


# The gradient of the second operand where nobody asks for that of the first one: Paddle's rules
# for the second gradient expect both.
SECOND_ALONE = {"pd_op.multiply": _product_alone, "pd_op.add": _sum_alone}
# Of these it reads that of the first one.
FIRST_NEEDED = frozenset(("pd_op.divide", "pd_op.conv2d"))


class Rule:
    """How an operation is differentiated: to which of its operands gradients go, and what makes them.

    `make` is given the operands and what arrives at the results; `stops` and its answer have an entry for each operand
    that gradients go to.
    """

    __slots__ = ("make", "semantics")

    def __init__(self, semantics, make):
        self.semantics = list(semantics)
        self.make = make

    def gradients(self, op, operands, made, arrived, stops):
        (operands, arrived, stops) = ([values[0] for values in lists] for lists in (operands, arrived, stops))
        return [[value] for value in self.make(op, operands, arrived, stops)]


class _Convolution(Rule):
    """Paddle's kernel leaves alone what nothing arrives for, where eager mode has zeros."""

    def gradients(self, op, operands, made, arrived, stops):
        missing = [not values[0].initialized() for values in (arrived[1], arrived[0])]
        known = [[stop or lacks] for (stop,), lacks in zip(stops, [*missing, False], strict=True)]
        answer = core.call_vjp(op, operands, made, arrived, known)
        for at, lacks in enumerate(missing):
            if lacks and not stops[at][0]:
                answer[at] = [_zeros(operands[at][0])]
        return answer


class _Concat(Rule):
    def gradients(self, op, operands, made, arrived, stops):
        pairs = zip(arrived[0], operands[0], strict=True)
        parts = [more if _initialized(more) else _zeros(like) for more, like in pairs]
        return [[_C_ops.concat(parts, operands[2][0])]]


# By operation.
RULES = {
    "pd_op.concat_grad": _Concat((False, True, False), None),
    "pd_op.conv2d_grad": _Convolution((True, True, True), None),
    "pd_op.reshape_grad": Rule((False, True), _reshape),
    "pd_op.exp_grad": Rule((True, True), _exp),
    "pd_op.silu_grad": Rule((True, False, True), _silu),
    "pd_op.matmul_grad": Rule((True, True, True), _matmul),
    "pd_op.add_double_grad": Rule((False, False, True, True), _add_again),
    "pd_op.bmm_grad": Rule((True, True, True), _bmm),
    "pd_op.multiply_double_grad": Rule((True, True, True, True, True), _multiply_again),
    "pd_op.subtract_grad": Rule((False, False, True), _subtract),
    "pd_op.minimum_grad": Rule((False, False, True), _chosen(_C_ops.less_than, _C_ops.greater_equal)),
    "pd_op.maximum_grad": Rule((False, False, True), _chosen(_C_ops.greater_than, _C_ops.less_equal)),
    "pd_op.tanh_double_grad": Rule((True, True, True), _tanh_again),
}
# In eager mode they take none where no gradient arrives at one of their results.
TAKE_NONE = frozenset(
    f"pd_op.{name}"
    for name in (
        *("add_grad", "bmm_grad", "concat_grad", "conv2d_grad", "divide_grad", "matmul_grad", "maximum_grad"),
        *("minimum_grad", "multiply_grad", "multiply_double_grad", "subtract_grad", "tanh_double_grad"),
    )
)
# But for the first one, which Paddle's rules in a program read.
ZEROS_FIRST = frozenset(f"pd_op.{name}" for name in ("add_grad", "conv2d_grad", "divide_grad", "multiply_grad"))
