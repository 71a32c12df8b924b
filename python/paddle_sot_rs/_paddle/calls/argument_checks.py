"""Calls that would end the process inside of Paddle, by their arguments: they are refused."""

import paddle

from paddle_sot_rs._core import operators, whole_arguments
from paddle_sot_rs._paddle.value_patches import Value


class BlackListed(Exception):
    """Raised by an inspection: this call is left to the interpreter."""


# With a tensor for an attribute, the static bindings of these end the process. How many tensors
# come first; others have one of the names.
_TENSORS_FIRST = {
    **dict.fromkeys(("all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp"), 1),
    **dict.fromkeys(("nanmean", "nanmedian", "nansum", "permute", "squeeze", "sum"), 1),
    **{"slice_scatter": 2, "strided_slice": 1},
    **{"yolo_box": 2, "yolo_loss": 3, "graph_khop_sampler": 3},
}
_TENSOR_NAMES = frozenset(
    (
        "x",
        "input",
        "out",
        "img_size",
        "gt_box",
        "gt_label",
        "gt_score",
        "row",
        "colptr",
        "input_nodes",
        "sorted_eids",
        "theta",
        "value",
    )
)


def _has_tensor(item):
    if isinstance(item, (list, tuple)):
        return any(map(_has_tensor, item))
    return isinstance(item, (Value, paddle.Tensor))


# With sizes or places that are no list of whole numbers these end the process, too: where those
# begin.
_WHOLE = whole_arguments()
# With lists that have such tensors in them; one alone is another operand.
_WHOLE_IN_LISTS = operators("whole_in_lists")


def name_of(function):
    return function if type(function) is str else (getattr(function, "__name__", None) or "").removeprefix("_")


def _check_attributes(name, args, kwargs):
    if name in _WHOLE or name in _WHOLE_IN_LISTS:
        named = (value for key, value in kwargs.items() if key not in _TENSOR_NAMES)
        for given in (*args[_WHOLE.get(name, 1) :], *named):
            alone = (given,) if name in _WHOLE else ()
            for value in given if isinstance(given, (list, tuple)) else alone:
                if not isinstance(value, (Value, paddle.Tensor)):
                    continue
                if value.dtype not in (paddle.int32, paddle.int64):
                    raise TypeError(f"{name}() with a tensor of {value.dtype}")
                if value.ndim > 1 or 0 in value.shape:
                    raise TypeError(f"{name}() with a tensor of shape {list(value.shape)} for whole numbers")
                if name == "affine_grid" and value is given and value.shape[:1] not in ([4], [5]):
                    raise TypeError("affine_grid() of neither four nor five dims")
    first = _TENSORS_FIRST.get(name)
    # An empty one counts as no axis there.
    if 1 in (first, _WHOLE.get(name)) and any(type(given) is str for given in args[1:2]):
        raise TypeError(f"{name}() with a text for a number")
    if first is None:
        return
    given = [*args[first:], *(value for key, value in kwargs.items() if key not in _TENSOR_NAMES)]
    if any(map(_has_tensor, given)):
        raise TypeError(f"{name}() with a tensor for an attribute")


# Give a result for each item along an axis.
_TAKES_APART = ("unbind", "unstack")


def _check_parts(name, args, kwargs):
    """Refuses results of unknown number."""
    if name not in _TAKES_APART:
        return
    value = args[0] if args else next((kwargs[key] for key in ("x", "input") if key in kwargs), None)
    axis = args[1] if len(args) > 1 else kwargs.get("axis", kwargs.get("dim", 0))
    # A slice of an open dim too.
    if isinstance(value, Value) and isinstance(axis, int) and -1 in value.shape[axis:][:1]:
        raise NotImplementedError(f"{name}() along an open dim")


# Where their bindings expect a list of tensors, and what it is called: without one these end the
# process.
_LISTS = {"index_put": (1, "indices")}
_OF_TENSORS = ("add_n", "meshgrid", "stack")


def _check_lists(name, args, kwargs):
    if name in _LISTS:
        at, keyword = _LISTS[name]
        if len(args) <= at and keyword not in kwargs:
            raise TypeError(f"{name}() without {keyword}")
    if name in _OF_TENSORS:
        # Static mode takes them away.
        given = (*args, *kwargs.values())
        lists = [it for it in given if isinstance(it, (list, tuple))]
        if any(item is None for it in (lists if name != "meshgrid" else (*lists, args)) for item in it):
            raise TypeError(f"{name}() with None for a tensor")


def allow(name, args, kwargs):
    """Raises for a call that would end the process inside Paddle."""
    _check_lists(name, args, kwargs)
    _check_attributes(name, args, kwargs)
    _check_parts(name, args, kwargs)
