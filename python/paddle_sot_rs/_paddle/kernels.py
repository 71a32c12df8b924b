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
# These, and what eager mode takes views of alone.
RARE = MORE_IN_ONEDNN | {paddle.int16, paddle.complex64, paddle.complex128}
_STRIDED = "STRIDED"
_HALVES = frozenset((paddle.float16, paddle.bfloat16, paddle.float32))


def is_on_cpu():
    """Whether kernels of a CPU run."""
    # The other one of Paddle's functions for this knows no place while a program is built.
    return isinstance(framework._current_expected_place_(), core.CPUPlace)


@functools.cache
def _registered():
    """By kernel, the backend, layout and name of the dtype of each form."""
    kernels = core._get_registered_phi_kernels("all").items()
    return {name: [key.strip("()").split(", ") for key in keys] for name, keys in kernels}


@functools.cache
def only_in_onednn():
    """By kernel, the names of the dtypes that oneDNN has one for and a CPU has not."""
    found = {}
    for name, keys in _registered().items():
        own = {dtype for backend, _, dtype in keys if backend == "CPU"}
        more = {dtype for backend, _, dtype in keys if backend == "ONEDNN"} - own
        # What has no kernel of a CPU for any dtype is no operator of eager mode.
        if more and own:
            found[name] = more
    return found


@functools.cache
def only_by_strides():
    """By kernel, the names of the dtypes for which eager mode makes a view, and a program has no kernel."""
    found = {}
    for name, keys in _registered().items():
        on_cpu = [(layout, dtype) for backend, layout, dtype in keys if backend == "CPU"]
        copied = {dtype for layout, dtype in on_cpu if layout != _STRIDED}
        viewed = {dtype for layout, dtype in on_cpu if layout == _STRIDED} - copied
        if viewed and copied:
            found[name] = viewed
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


def without_kernel(op):
    """The dtype of an operand for which this operation has no kernel, or only one of oneDNN's; else None."""
    # The tables take as long as some hundred operations.
    tensors = (value for value in operands(op) if value.is_dense_tensor_type())
    dtypes = [value.dtype for value in tensors if value.dtype in RARE]
    if not dtypes:
        return None
    name = op.name().removeprefix("pd_op.").removesuffix("_")
    more = {*only_in_onednn().get(name, ()), *only_by_strides().get(name, ())}
    return next((dtype for dtype in dtypes if str(dtype).removeprefix("paddle.") in more), None)


def mixed(values):
    """Whether tensors that one kernel takes alike have dtypes that eager mode promotes, or refuses.

    A program reads the bits of one as another, or has no gradient. Halves beside float32 are meant (norms).
    """
    dtypes = {value.dtype for value in values if value.initialized() and value.is_dense_tensor_type()}
    return len(dtypes) > 1 and not dtypes <= _HALVES
