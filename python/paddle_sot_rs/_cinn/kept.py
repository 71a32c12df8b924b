"""Which composite operators stay whole: those whose primitive form has other numbers than eager mode's kernels."""

import math

import paddle
from paddle.base import core

from paddle_sot_rs._paddle.constants import GIVEN
from paddle_sot_rs._paddle.value_patches import raw_dims
from paddle_sot_rs._paddle.views import ASSIGN, PARTS, is_view

# Composite operators that stay, and why.
KEPT = {
    "pd_op.dropout": "decomposed it draws another mask than eager mode",
    **dict.fromkeys(("pd_op.elu", "pd_op.relu6", "pd_op.add_n"), "decomposed it has other signs of zeros"),
    "pd_op.any": "decomposed it is a sum, of the dtype of what it is given",
    "pd_op.bce_loss": "decomposed it takes what is no probability",
    "pd_op.log_softmax": "decomposed it has numbers below the -64 at which a kernel ends",
    "pd_op.index_select": "decomposed it loses the axis for an index without items",
    "pd_op.lerp": "decomposed it makes other numbers of what is infinite",
    **dict.fromkeys(
        ("pd_op.huber_loss", "pd_op.sigmoid_cross_entropy_with_logits"),
        "its gradient in primitive operators multiplies 0 with what is infinite",
    ),
    **dict.fromkeys(
        ("pd_op.clip", "pd_op.relu", "pd_op.heaviside", "pd_op.kldiv_loss"),
        "decomposed it makes other numbers of what is no number",
    ),
}
_WHOLE_NUMBERS = (paddle.bool, paddle.uint8, paddle.int8, paddle.int16, paddle.int32, paddle.int64)


def _takes_whole_numbers(op):
    return op.operand_source(0).dtype in _WHOLE_NUMBERS


# Composite operators that stay for some operands and attributes.
_KEPT_WHERE = {
    # Decomposed they ignore nothing of what they multiply with 0.
    **dict.fromkeys(("pd_op.addmm", "pd_op.baddbmm"), lambda op: 0 in (op.attrs()["alpha"], op.attrs()["beta"])),
    # Its kernel makes another gradient without a weight, and eager mode has that one.
    "pd_op.group_norm": lambda op: not op.operand_source(1).initialized(),
    # Decomposed it has other signs of zeros, and multiplies a slope of 0 with what is infinite.
    "pd_op.leaky_relu": lambda op: op.attrs()["negative_slope"] <= 0,
    # Decomposed it divides by the length of an axis that is not there, and rounds what has no
    # fractions otherwise.
    "pd_op.mean": lambda op: _takes_whole_numbers(op) or op.operand_source(0).shape == [],
    # Decomposed it forgets the absolute value of the largest and the smallest, and counts what is
    # no number.
    "pd_op.p_norm": lambda op: op.attrs()["porder"] in (0, math.inf, -math.inf),
    # Decomposed it is a power of floats.
    "pd_op.square": _takes_whole_numbers,
}
# Their gradients read something else in primitive operators than in one of their own (what they are
# given, or what it becomes), which matters where that gets other numbers in between.
_READ_OTHERWISE = frozenset(
    f"pd_op.{name}"
    for name in (
        *("amax", "amin", "clip", "cumprod", "divide", "group_norm", "log_softmax", "max", "min", "p_norm", "prod"),
        *("put_along_axis", "reciprocal", "sigmoid_cross_entropy_with_logits", "silu", "unbind"),
    )
)
# Their kernels do something else where gradients go to some operands (norms forget a weight, or
# give it nothing; for `swiglu` Paddle's primitive rule crashes), or to all of them (a value that is
# filled in gets zeros).
_SOME, _ALL = {True, False}, {False}
_OF_KERNELS = {
    **dict.fromkeys(("pd_op.layer_norm", "pd_op.batch_norm_", "pd_op.instance_norm", "pd_op.swiglu"), _SOME),
    "pd_op.masked_fill": _ALL,
}


def dims_of(value):
    """Below 0 for what is open; none of what is no tensor."""
    return raw_dims(value) if value.initialized() and value.is_dense_tensor_type() else ()


def is_empty(value):
    return 0 in dims_of(value)


def is_list(value):
    return value.initialized() and value.is_combine()


def parts_of(value):
    """The values in a list operand."""
    if is_list(value):
        return value.get_defining_op().operands_source()
    return [value]


def reading_otherwise(operations, kept):
    """The names of those of these operators that take or make what is in storage that anyone can change."""
    visible = {value.id for value in kept}
    for op in reversed(operations):
        # What is a copy goes out, what a view is of is changed with it.
        shares = is_view(op) or op.name() in (ASSIGN, *PARTS)
        if shares and any(value.id in visible for value in op.results()):
            visible.add(op.operand_source(0).id)
    found = set()
    for op in operations:
        if op.name() in GIVEN:
            visible.add(op.results()[0].id)
        taken = any(value.initialized() and value.id in visible for value in op.operands_source())
        if taken and (is_view(op) or op.name() == "builtin.split"):
            visible.update(value.id for value in op.results())
        made = any(value.initialized() and value.id in visible for value in op.results())
        if (taken or made) and op.name() in _READ_OTHERWISE:
            found.add(op.name())
    return found


def kept_where(operations):
    """The names of those that stay for what they are given; some rules end the process without items (`diag`)."""
    found = set()
    for op in operations:
        name = op.name()
        if name in _KEPT_WHERE and _KEPT_WHERE[name](op):
            found.add(name)
        elif core.has_decomp_rule(op):
            if any(is_empty(part) for value in op.operands_source() if value.initialized() for part in parts_of(value)):
                found.add(name)
    return found


def with_gradients(names):
    return frozenset(names | {f"{name}_grad" for name in names})


def of_kernels(operations):
    """The names of those whose kernel gives another gradient than primitive operators do: eager mode has that one."""
    found = set()
    for op in operations:
        if op.name() in _OF_KERNELS:
            taken = zip(op.operands_source(), op.get_input_grad_semantics(), strict=True)
            stops = {value.stop_gradient for value, has_gradient in taken if has_gradient and value.initialized()}
            if stops == _OF_KERNELS[op.name()]:
                found.add(op.name())
    return found
