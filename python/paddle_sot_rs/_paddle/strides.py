"""Where numbers of a tensor lie in its storage, in eager mode: what cannot be given another shape there is copied.

New tensors lie in their order, without gaps between the numbers. An input that does not is copied when it comes in.
"""

from math import prod

from paddle_sot_rs._paddle.gradients.backward import with_inner
from paddle_sot_rs._paddle.value_patches import dims
from paddle_sot_rs._paddle.views import ASSIGN, COPIES, is_view

# Those that copy where they have to.
_RESHAPE = frozenset(("pd_op.reshape", "pd_op.flatten"))
# Stand for open dims: all of them differ, and no product of sizes that are usual is one.
_PRIMES = (1000003, 1000033, 1000037, 1000039, 1000081, 1000099, 1000117, 1000121, 1000133, 1000151, 1000159, 1000171)


class _Unknown(Exception):
    """Nobody knows where they lie."""


def mark_copies(operations):
    """Marks those that copy, in blocks too; the answer is whether there are any."""
    found = False
    for op in with_inner(operations):
        if op.name() in _RESHAPE and _copies(op):
            op.set_bool_attr(COPIES, True)
            found = True
    return found


def _copies(op):
    """Whether the numbers of its operand lie so that no strides describe the result."""
    known = _Strides()
    try:
        sizes, strides = known.of(op.operand_source(0))
        return reshaped(sizes, strides, known.sizes(op.results()[0], sizes)) is None
    except _Unknown:
        return False


def layout(value):
    """Sizes and strides of a view; None where the numbers lie in their order, or nobody knows better."""
    maker = value.get_defining_op()
    if maker is None or maker.name() != "builtin.split" and not is_view(maker):
        return None
    try:
        sizes, strides = _Strides().of(value)
    except _Unknown:
        return value.id
    return None if strides == _in_order(sizes) else (tuple(sizes), tuple(strides))


def reshaped(old, strides, new):
    """The strides with which a tensor of sizes `old` is one of sizes `new`; None where it has to be copied."""
    if 0 in old:
        return _in_order(new)
    found, last = [], len(new)
    for sizes, step in _together(old, strides):
        count = 1
        while last and (count < sizes or new[last - 1] == 1):
            last -= 1
            found.append(count * step)
            count *= new[last]
        if count != sizes:
            return None
    # Ones in front of a single number.
    found += [1] * last
    return found[::-1]


def _together(sizes, strides):
    """From the last dim to the first, how many numbers follow one another at the same distance, and that distance."""
    count, step = 1, None
    for size, stride in reversed([*zip(sizes, strides, strict=True)]):
        if size == 1:
            continue
        if step is not None and stride != count * step:
            yield count, step
            count, step = 1, None
        step = stride if step is None else step
        count *= size
    if step is not None:
        yield count, step


def _in_order(sizes):
    return [prod(sizes[at + 1 :]) for at in range(len(sizes))]


class _Strides:
    """Sizes and strides of values, of which open dims have numbers of their own."""

    def __init__(self):
        self.primes = iter(_PRIMES)

    def size(self, dim):
        if dim >= 0:
            return dim
        for prime in self.primes:
            return prime
        raise _Unknown

    def of(self, value):
        op = value.get_defining_op()
        if op is not None and op.name() == "builtin.split":
            op = op.operand_source(0).get_defining_op()
        if op is None or not is_view(op):
            sizes = [self.size(dim) for dim in dims(value)]
            return sizes, _in_order(sizes)
        rule = _RULES.get(op.name())
        if rule is None:
            raise _Unknown
        return rule(self, op, value, *self.of(op.operand_source(0)))

    def sizes(self, value, given):
        """Those of a value that holds the numbers of one with sizes `given`, in their order.

        Of several open dims, the first are likely to be those of what was given; that is compared with a call in which
        all are known (`src/engine/translate/automatic_dynamic.rs`).
        """
        sizes = dims(value)
        opened = [at for at, dim in enumerate(sizes) if dim < 0]
        if opened:
            first = (size for size in given if size in _PRIMES)
            for at in opened[:-1]:
                sizes[at] = next(first, 0)
            sizes[opened[-1]] = 1
            sizes[opened[-1]] = prod(given) // (prod(sizes) or 1)
        if prod(sizes) != prod(given):
            raise _Unknown
        return sizes


def _same(known, op, value, sizes, strides):
    return sizes, strides


def _reshape(known, op, value, sizes, strides):
    try:
        new = known.sizes(value, sizes)
    except _Unknown:
        if strides != _in_order(sizes):
            raise
        # In their order they stay so, whatever the sizes are.
        new = [known.size(dim) for dim in dims(value)]
        return new, _in_order(new)
    found = reshaped(sizes, strides, new)
    if found is None:
        raise _Unknown
    return new, found


def _transpose(known, op, value, sizes, strides):
    order = op.attrs()["perm"]
    return [sizes[at] for at in order], [strides[at] for at in order]


def _slice(known, op, value, sizes, strides):
    attributes = op.attrs()
    kept = [at for at in range(len(sizes)) if at not in attributes["decrease_axis"]]
    cut = attributes["axes"]
    sizes = [known.size(dim) if at in cut else sizes[at] for at, dim in zip(kept, dims(value), strict=True)]
    return sizes, [strides[at] for at in kept]


def _strided_slice(known, op, value, sizes, strides):
    steps = op.operand_source(3).get_defining_op()
    if steps is None or steps.name() != "pd_op.full_int_array":
        raise _Unknown
    by = dict(zip(op.attrs()["axes"], steps.attrs()["value"], strict=True))
    sizes = [known.size(dim) if at in by else sizes[at] for at, dim in enumerate(dims(value))]
    return sizes, [stride * by.get(at, 1) for at, stride in enumerate(strides)]


def _diagonal(known, op, value, sizes, strides):
    attributes = op.attrs()
    axes = [attributes[name] % len(sizes) for name in ("axis1", "axis2")]
    kept = [at for at in range(len(sizes)) if at not in axes]
    along = sum(strides[at] for at in axes)
    return [*(sizes[at] for at in kept), known.size(dims(value)[-1])], [*(strides[at] for at in kept), along]


def _unbind(known, op, value, sizes, strides):
    axis = op.attrs()["axis"] % len(sizes)
    return sizes[:axis] + sizes[axis + 1 :], strides[:axis] + strides[axis + 1 :]


_RULES = {
    **dict.fromkeys((*_RESHAPE, "pd_op.squeeze", "pd_op.unsqueeze"), _reshape),
    ASSIGN: _same,
    "pd_op.transpose": _transpose,
    "pd_op.slice": _slice,
    "pd_op.strided_slice": _strided_slice,
    "pd_op.diagonal": _diagonal,
    "pd_op.unbind": _unbind,
}
