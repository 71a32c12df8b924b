"""Kernel choice: a program runs the kernels that eager mode would, or the call is left to eager mode. In
`passes/linears.py` another kernel has the same bits.

Where a CPU has no kernel of Paddle's own for a dtype, eager mode raises. A program takes oneDNN's for it, which ends
the process on processors without the instructions, and computes what eager mode refuses on the others.
"""

import functools

import paddle
from paddle.base import core, framework

# What oneDNN computes in where a kernel of Paddle's own may not, in all versions so far.
MORE_IN_ONEDNN = frozenset((paddle.float16, paddle.bfloat16, paddle.int8, paddle.uint8))
_HALVES = frozenset((paddle.float16, paddle.bfloat16, paddle.float32))


def is_on_cpu():
    """Whether kernels of a CPU run."""
    # The other one of Paddle's functions for this knows no place while a program is built.
    return isinstance(framework._current_expected_place_(), core.CPUPlace)


@functools.cache
def only_in_onednn():
    """By kernel, the names of the dtypes that oneDNN has one for and a CPU has not."""
    found = {}
    for name, keys in core._get_registered_phi_kernels("all").items():
        keys = [key.strip("()").split(", ") for key in keys]
        own = {dtype for backend, _, dtype in keys if backend == "CPU"}
        more = {dtype for backend, _, dtype in keys if backend == "ONEDNN"} - own
        # What has no kernel of a CPU for any dtype is no operator of eager mode.
        if more and own:
            found[name] = more
    return found


def operands(op):
    """Those of an operation, with what its lists hold."""
    for value in op.operands_source():
        if not value.initialized():
            continue
        maker = value.get_defining_op()
        if maker is not None and maker.name() == "builtin.combine":
            yield from maker.operands_source()
        else:
            yield value


def taken_from_onednn(op):
    """The dtype of an operand for which only oneDNN has a kernel of this operation, None where there is none."""
    # The table takes as long as some hundred operations.
    tensors = (value for value in operands(op) if value.is_dense_tensor_type())
    dtypes = [value.dtype for value in tensors if value.dtype in MORE_IN_ONEDNN]
    if not dtypes:
        return None
    more = only_in_onednn().get(op.name().removeprefix("pd_op.").removesuffix("_"), ())
    return next((dtype for dtype in dtypes if str(dtype).removeprefix("paddle.") in more), None)


def mixed(values):
    """Whether tensors that one kernel takes alike have dtypes that eager mode promotes, or refuses.

    A program reads the bits of one as another, or has no gradient. Halves beside float32 are meant (norms).
    """
    dtypes = {value.dtype for value in values if value.initialized() and value.is_dense_tensor_type()}
    return len(dtypes) > 1 and not dtypes <= _HALVES
