"""Operators that Paddle's passes for oneDNN know, and what these join wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import paddle

# They ask for no more than the name.
KNOWN = frozenset(
    """
    abs add add_n batch_norm bilinear_interp cast clip concat conv2d conv2d_transpose
    conv2d_transpose_bias conv3d depthwise_conv2d divide elu exp fc flatten full fusion_gru
    gaussian gelu hardswish layer_norm leaky_relu log_softmax lrn matmul matmul_with_flatten max
    mean min mish multiply nearest_interp pad pad3d pool2d prelu prior_box relu relu6 reshape
    round scale shape sigmoid slice softmax softplus split split_with_num sqrt squeeze stack
    subtract sum swish tanh transpose unsqueeze
    """.split()
)
# What the passes join to the operation in front of it.
ACTIVATIONS = frozenset(
    """
    abs clip elu gelu hardsigmoid hardswish leaky_relu mish relu relu6 scale sigmoid silu softplus sqrt swish tanh
    """.split()
)


def plain_name(op: Any) -> str:
    """The name, without where it is from and whether it writes over its operand."""
    return str(op.name()).removeprefix("pd_op.").removesuffix("_")


def _maker(op: Any) -> Any:
    """The operation that made the first operand, None where that is an input of a block."""
    return op.operand_source(0).get_defining_op() if op.num_operands() else None


# The threshold of `softplus` from which on floats are those of none.
_SAME_AS_NONE = 16
# The fewest dims that `prelu` of oneDNN is right with.
_SLOPE_DIMS = 4
_CONVOLUTIONS = frozenset("conv2d conv2d_transpose conv2d_transpose_bias conv3d depthwise_conv2d".split())
# Kernels of oneDNN whose results lie in the order of their dims. Others lay them out as an operand.
_PLAIN = frozenset("fc flatten full fusion_gru gaussian matmul matmul_with_flatten reshape shape transpose".split())
_KEEPS_LAYOUT = (KNOWN | ACTIVATIONS | frozenset("builtin.combine builtin.split dropout".split())) - _PLAIN
_PRODUCT, _SUM, _SCALE, _TRANSPOSE = "matmul add scale transpose".split()
_PRELU, _SOFTPLUS, _LAYER_NORM, _RESHAPE = "prelu softplus layer_norm reshape".split()
# Attributes of a product: whether the operands are transposed.
TURNED = "transpose_x transpose_y".split()
_SQUEEZE = "squeeze"
_FLATTENS = frozenset("flatten reshape".split())
_LIST = "builtin.combine"
# By operation, those behind it that a pass makes a part of it.
_TURNED_AND = {_TRANSPOSE: "reshape unsqueeze".split()}
# The passes look through these: what they make of them and a product is a product.
_RESHAPES = frozenset("reshape scale squeeze transpose unsqueeze".split())


def _reached(op: Any, operands: Callable[[Any], Sequence[Any]]) -> Iterator[Any]:
    """The operation and those behind it, each once. `operands`: through which of them it goes on."""
    waiting, seen = [op], set[int]()
    while waiting:
        op = waiting.pop()
        if op is None or op.id() in seen:
            continue
        seen.add(op.id())
        yield op
        waiting += [value.get_defining_op() for value in operands(op) if value.initialized()]


def _summed_or_reshaped(op: Any) -> Sequence[Any]:
    name = plain_name(op)
    if name == _SUM:
        return tuple(op.operands_source())
    return (op.operand_source(0),) if name in _RESHAPES else ()


def _is_product(op: Any) -> bool:
    """Whether it is a product, also one that is reshaped, or summed with something else."""
    return any(plain_name(it) == _PRODUCT for it in _reached(op, _summed_or_reshaped))


def is_cut_off(op: Any) -> bool:
    """Whether it is a `softplus` whose kernel of oneDNN differs: that has no threshold."""
    return plain_name(op) == _SOFTPLUS and float(op.attrs()["threshold"]) < _SAME_AS_NONE


def reads_behind_the_slope(op: Any) -> bool:
    """Whether it is a `prelu` whose kernel of oneDNN lays out the slope as it is not."""
    return plain_name(op) == _PRELU and len(op.operand_source(0).shape) < _SLOPE_DIMS


def has_six_dims(op: Any) -> bool:
    """Whether it takes six dims or more, with which kernels of norms and slopes raise."""
    return len(op.operand_source(0).shape) > 5


def norms_several_dims(op: Any) -> bool:
    """Whether it is a `layer_norm` of more than the last dim, which the kernel of oneDNN refuses."""
    return plain_name(op) == _LAYER_NORM and op.attrs()["begin_norm_axis"] != len(op.operand_source(0).shape) - 1


def _numbers(value: Any) -> list[int] | None:
    """The constants that are a list of sizes or places; None where the program computes them."""
    maker = value.get_defining_op()
    return maker.attrs()["value"] if maker is not None and maker.name() == "pd_op.full_int_array" else None


def sliced_axes(op: Any) -> list[int]:
    """The axes along which a slice takes a part."""
    return list(op.attrs()["axes"])


def begins_in_front(op: Any) -> bool:
    """Whether it is a slice that may begin in front of the first place: the kernel of oneDNN reads there.

    A dim has one place at least, see `filled`.
    """
    if op.name() != "pd_op.slice":
        return False
    shape, begins = op.operand_source(0).shape, _numbers(op.operand_source(1))
    if begins is None:
        return True
    pairs = zip(sliced_axes(op), begins, strict=True)
    return any(begin < -max(shape[axis], 1) for axis, begin in pairs)


# Attributes of a pooling.
_PLACES = "paddings padding_algorithm strides data_format".split()
_HOW = "pooling_type adaptive global_pooling ceil_mode exclusive".split()


class _Windows(NamedTuple):
    """The windows of a pooling along one axis. `padding` is in front and behind, None where only a call says it."""

    dim: int
    size: int
    stride: int
    padding: tuple[int, int] | None

    def all_are_whole(self, rounds_up: bool) -> bool:
        """Whether none ends behind the padding in any call."""
        if self.padding is None:
            return False
        left = max(self.dim, 1) + sum(self.padding) - self.size
        return left >= 0 and (not rounds_up or (left % self.stride == 0 if self.dim >= 0 else self.stride == 1))


def _windows(op: Any, sizes: list[int]) -> list[_Windows]:
    asked, shape = op.attrs(), op.operand_source(0).shape
    explicit, algorithm, strides, layout = (asked[name] for name in _PLACES)
    dims = shape[1:-1] if layout == "NHWC" else shape[2:]
    found = []
    for at, (dim, size, stride) in enumerate(zip(dims, sizes, strides, strict=True)):
        padding: tuple[int, int] | None = (0, 0)
        if algorithm == "SAME" and dim < 0 and stride > 1:
            padding = None
        elif algorithm == "SAME":
            count = -(-dim // stride) if stride > 1 else dim
            whole = max((count - 1) * stride + size - dim, 0)
            padding = whole // 2, whole - whole // 2
        elif algorithm != "VALID":
            padding = (explicit[2 * at], explicit[2 * at + 1]) if len(explicit) == 4 else (explicit[at],) * 2
        found.append(_Windows(dim, size, stride, padding))
    return found


def pools_otherwise(op: Any) -> bool:
    """Whether it is a pooling that the kernel of oneDNN refuses, or computes with other windows.

    A window that ends behind the padding makes more of that, in another place where the paddings differ: an average
    counts it, and is refused where its padding is as wide as a window.
    """
    if op.name() != "pd_op.pool2d":
        return False
    asked = op.attrs()
    kind, is_adaptive, is_global, rounds_up, is_exclusive = (asked[name] for name in _HOW)
    if is_adaptive or is_global:
        return False
    sizes = _numbers(op.operand_source(1))
    if sizes is None:
        return True
    windows = _windows(op, sizes)
    are_whole = all(it.all_are_whole(rounds_up) for it in windows)
    paddings = [it.padding for it in windows if it.padding is not None]
    if kind == "max":
        return rounds_up and not are_whole and len({size for pair in paddings for size in pair}) > 1
    is_symmetric = len(paddings) == len(windows) and all(front == behind for front, behind in paddings)
    if not is_exclusive:
        return not (is_symmetric and are_whole)
    if any(it.padding is not None and max(it.padding) >= it.size for it in windows):
        return True
    return rounds_up and not (is_symmetric and are_whole)


def _in_its_layout(op: Any) -> Sequence[Any]:
    return tuple(op.operands_source()) if plain_name(op) in _KEEPS_LAYOUT else ()


def _has_own_layout(maker: Any) -> bool:
    """Whether it is a convolution, or keeps the layout of one."""
    return any(plain_name(it) in _CONVOLUTIONS for it in _reached(maker, _in_its_layout))


def _read_in_its_place(value: Any) -> Any:
    """The operation that makes what a product reads: a pass makes what is reshaped and transposed a part of it."""
    maker = value.get_defining_op()
    if maker is None or plain_name(maker) != _TRANSPOSE:
        return maker
    reshape = _maker(maker)
    return _maker(reshape) if reshape is not None and plain_name(reshape) == _RESHAPE else maker


def misread(op: Any) -> list[int]:
    """The places of operands that a kernel of oneDNN takes for what lies in the order of its dims, and do not."""
    name, operands = plain_name(op), op.operands_source()
    if name == _PRODUCT:
        return [at for at, value in enumerate(operands) if _has_own_layout(_read_in_its_place(value))]
    if name in _CONVOLUTIONS and operands[1].dtype == paddle.float32 and _has_own_layout(operands[1].get_defining_op()):
        # The filter.
        return [1]
    return []


def transposes_a_column(op: Any) -> bool:
    """Whether it is a product of columns with rows that are columns too, or may be: its kernel reads behind those."""
    if plain_name(op) != _PRODUCT or not op.attrs()[TURNED[1]]:
        return False
    shapes = [value.shape for value in op.operands_source()]
    if min(map(len, shapes)) < 2:
        return False
    return max(shapes[0][-2 if op.attrs()[TURNED[0]] else -1], shapes[1][-1]) < 2


def is_flattened_otherwise(op: Any) -> bool:
    """Whether it is transposed, reshaped and multiplied or summed: a pass makes one operation of the first two.

    A product flattens the dims of that as if they were those of the reshaped. A sum becomes part of the product whose
    result is transposed, and reads its other operand as if that were transposed too.
    """
    if plain_name(op) != _TRANSPOSE:
        return False
    if ends_a_product(op) and any(_goes_into(user, _SUM) for user in op.result(0).all_used_ops()):
        return True
    return any(_goes_into(user, _PRODUCT) and not _ends_alike(op, user) for user in op.result(0).all_used_ops())


def _goes_into(op: Any, name: str) -> bool:
    """Whether it flattens dims for an operation of this name."""
    return plain_name(op) in _FLATTENS and _is_read_by(op, name)


def _is_read_by(op: Any, name: str) -> bool:
    return any(plain_name(user) == name for user in op.result(0).all_used_ops())


def is_typed_otherwise(op: Any) -> bool:
    """Whether it gets other dims twice, and is listed, or transposed by more dims: a pass makes one operation of the
    two, with the type of the first, which the list and the transpose refuse.
    """
    followers = _TURNED_AND.get(plain_name(op), ())
    users = [user for user in op.result(0).all_used_ops() if plain_name(user) in followers] if followers else []
    if any(_is_read_by(user, _LIST) for user in users):
        return True
    return any(_is_read_by(user, _TRANSPOSE) and _has_more_dims(user, op) for user in users)


def _has_more_dims(op: Any, other: Any) -> bool:
    return len(op.result(0).shape) > len(other.result(0).shape)


def is_multiplied_otherwise(op: Any) -> bool:
    """Whether it is reshaped, transposed and multiplied by a tensor of more or fewer dims: a pass makes the first two a
    part of the product, whose kernel raises.
    """
    reshape = _maker(op) if plain_name(op) == _TRANSPOSE else None
    if reshape is None or plain_name(reshape) != _RESHAPE:
        return False
    products = (user for user in op.result(0).all_used_ops() if plain_name(user) == _PRODUCT)
    return any(len({len(value.shape) for value in product.operands_source()}) > 1 for product in products)


def is_squeezed_otherwise(op: Any) -> bool:
    """Whether it is squeezed and transposed: a pass makes one operation of the two, of which the type is that of what
    is not squeezed. Passes behind it ask for that: those for activations, sums and lists.
    """
    return plain_name(op) == _SQUEEZE and _is_read_by(op, _TRANSPOSE)


def _ends_alike(transpose: Any, reshape: Any) -> bool:
    """Whether the last dim of what is reshaped is what is flattened of the transposed."""
    dims, made = transpose.result(0).shape, reshape.result(0).shape
    last = dims[len(made) - 1 :]
    return all(dim > 0 for dim in last) and math.prod(last) == made[-1]


def ends_a_product(op: Any) -> bool:
    """Whether it reads a product: see `_is_product`."""
    return _is_product(_maker(op))


def activates_again(op: Any) -> bool:
    """Whether it is the second activation behind a product: the passes give that one of them."""
    maker = _maker(op)
    if maker is None or not {plain_name(op), plain_name(maker)} <= ACTIVATIONS:
        return False
    return ends_a_product(maker)


def grows_a_product(op: Any, known: Mapping[int, Sequence[Any]]) -> bool:
    """Whether it is a sum that may have more elements than a product in it: a pass makes it a part of the product,
    with the dims of that.

    `known` has the dims of tensors by the ids of values, see `equal_dims`.
    """
    if plain_name(op) != _SUM:
        return False
    left, right = op.operands_source()
    return _may_grow(left, right, known) or _may_grow(right, left, known)


def scales_a_quotient(op: Any, known: Mapping[int, Sequence[Any]]) -> bool:
    """Whether it scales a quotient that may have more elements than what is divided: a pass makes one operation of the
    two, whose kernel scales something else. `known`: see `grows_a_product`.
    """
    maker = _maker(op) if plain_name(op) == _SCALE else None
    if maker is None or plain_name(maker) != "divide":
        return False
    divided, quotient = maker.operand_source(0), maker.result(0)
    return _dims(divided, known) != _dims(quotient, known)


def _dims(value: Any, known: Mapping[int, Sequence[Any]]) -> Sequence[Any]:
    """Of values from other blocks nothing is known: an open dim differs from each other one then."""
    return known.get(value.id, [dim if dim >= 0 else value.id for dim in value.shape])


def _may_grow(value: Any, other: Any, known: Mapping[int, Sequence[Any]]) -> bool:
    maker = value.get_defining_op()
    while maker is not None and plain_name(maker) == _SCALE:
        maker = _maker(maker)
    if maker is None or plain_name(maker) != _PRODUCT:
        return False
    # Of a vector, the kernel makes a matrix first.
    if len(other.shape) > len(value.shape) or any(len(it.shape) < 2 for it in maker.operands_source()):
        return True
    dims, others = _dims(value, known), _dims(other, known)
    pairs = zip(reversed(dims), reversed(value.shape), reversed(others), strict=False)
    return any(size < 2 and dim != wanted and wanted != 1 for dim, size, wanted in pairs)
