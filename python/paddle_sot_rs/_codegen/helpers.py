"""Constructors the generated code calls: one for each kind of value that no instruction builds."""

import collections
import itertools
import types

import paddle

_item = paddle.Tensor.item
_set = object.__setattr__
_delete = object.__delattr__


def _own(value, *classes):
    """The one of these classes that it is of: what is called through it, no subclass has changed."""
    return next((class_ for class_ in classes if isinstance(value, class_)), type(value))


def sequence_iterator(over, index):
    if isinstance(over, collections.deque):
        return type(iter(over))(over, index)
    iterator = _own(over, list, tuple).__iter__(over)
    if index:
        iterator.__setstate__(index)
    return iterator


def reversed_iterator(over, left):
    iterator = list.__reversed__(over) if isinstance(over, list) else reversed(over)
    iterator.__setstate__(left - 1)
    return iterator


class Itself:
    """Has an iterator, which is not asked again for the iterator that it is."""

    __slots__ = ("iterator",)

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self.iterator


def range_iterator(start, stop, step):
    return iter(range(start, stop, step))


def tensor_iterator(over, index):
    iterator = iter(over)
    iterator.__setstate__(index)
    return iterator


def layers_iterator(*layers):
    return iter(collections.OrderedDict(enumerate(layers)).values())


def zip_iterator(strict, *inner):
    return zip(*inner, strict=strict)


def chain_iterator(active, source):
    return itertools.chain.from_iterable(itertools.chain(active, source))


def rows_iterator(name, pools, length, index):
    rows = getattr(itertools, name)(*pools, *(() if length is None else (length,)))
    next(itertools.islice(rows, index, index), None)
    return rows


def cycle_iterator(saved, index):
    return itertools.cycle(saved[index:] + saved[:index])


def accumulate_iterator(over, function, initial, total):
    if not total:
        return itertools.accumulate(over, function, initial=initial)
    if total[0] is None:
        # `initial=None` would be none.
        sums = itertools.accumulate(itertools.chain(total, over), function)
    else:
        sums = itertools.accumulate(over, function, initial=total[0])
    next(sums)
    return sums


def pairwise_iterator(old, over):
    return itertools.pairwise(itertools.chain(old, over))


def zip_longest_iterator(fill, *over):
    return itertools.zip_longest(*over, fillvalue=fill)


def advanced(container, which, count):
    if which is not None:
        container = dict_view(container, which)
    iterator = _own(container, set, frozenset).__iter__(container)
    for _ in range(count):
        next(iterator)
    return iterator


def make_function(code, namespace, defaults, kwdefaults, annotations, closure, names, *values):
    function = types.FunctionType(code, namespace, code.co_name, defaults, closure or None)
    function.__qualname__ = code.co_qualname
    function.__kwdefaults__ = kwdefaults
    if isinstance(annotations, tuple):
        annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
    if annotations:
        function.__annotations__ = annotations
    for name, value in zip(names, values, strict=True):
        setattr(function, name, value)
    return function


def take_name(layer):
    from paddle.nn.layer.layers import _convert_camel_to_snake
    from paddle.utils import unique_name

    unique_name.generate(_convert_camel_to_snake(layer.__name__))


def bind(function, receiver):
    return function.__get__(receiver, type(receiver))


def make_partial(function, names, *values):
    from functools import partial

    split = len(values) - len(names)
    return partial(function, *values[:split], **dict(zip(names, values[split:], strict=True)))


def call_with(function, names, *values):
    split = len(values) - len(names)
    return function(*values[:split], **dict(zip(names, values[split:], strict=True)))


def again(grad, function, names, *values):
    if grad:
        return call_with(function, names, *values)
    from paddle.base.dygraph import no_grad

    with no_grad():
        return call_with(function, names, *values)


def new_object(base, class_):
    # Those are made by no other class.
    if class_ is types.SimpleNamespace:
        return class_()
    return base.__new__(class_)


def new_deque(most):
    return collections.deque(maxlen=most)


def fill(target, items):
    own = _own(target, collections.OrderedDict, dict, list, collections.deque)
    if own is list or own is collections.deque:
        own.extend(target, items)
    else:
        for key, value in items.items():
            own.__setitem__(target, key, value)


def new_exception(class_, args):
    return class_(*args)


def dict_view(mapping, which):
    own = _own(mapping, collections.OrderedDict, dict)
    return (own.keys, own.values, own.items)[which](mapping)


def set_attribute(target, name, value):
    _set(target, name, value)


def register_attribute(layer, name, tensor):
    from paddle.nn import Layer

    Layer.__setattr__(layer, name, tensor)


def delete_attribute(target, name):
    _delete(target, name)


def set_list(target, items):
    if isinstance(target, collections.deque):
        # Iterators of others notice it, also where it holds the same again.
        target.clear()
        target.extend(items)
    else:
        list.__setitem__(target, slice(None), items)


def set_items(target, items):
    """Those of a deque: its iterators notice nothing."""
    for place, item in enumerate(items):
        if target[place] is not item:
            target[place] = item


def extend_list(target, items):
    list.extend(target, items)


def set_dict(target, items):
    own = _own(target, collections.OrderedDict, dict)
    if not items:
        # Iterators of an `OrderedDict` tell this from keys that are deleted.
        own.clear(target)
        return
    # Keys that stay where they are in front of the others are left alone: only values change, keys
    # go and are added, as iterators that others have on the dict find it.
    end = object()
    wanted = iter(items)
    new = next(wanted, end)
    gone = []
    for old in own.__iter__(target):
        if old is new or type(old) is type(new) and old == new:
            new = next(wanted, end)
        else:
            gone.append(old)
    for key in gone:
        own.__delitem__(target, key)
    for key, value in items.items():
        own.__setitem__(target, key, value)


def set_changed_dict(target, changes):
    """What the frame has left alone stays as other threads may have written it since the frame has looked."""
    gone, items = changes
    own = _own(target, collections.OrderedDict, dict)
    if not items and dict.__len__(target) == len(gone):
        # Iterators of an `OrderedDict` tell this from keys that are deleted.
        own.clear(target)
        return
    for key in gone:
        if dict.__contains__(target, key):
            own.__delitem__(target, key)
    for key, value in items.items():
        own.__setitem__(target, key, value)


def set_changed_list(target, changes):
    """The same of a list of which items are replaced: those that others have cut off are not there any more."""
    for place, item in zip(*changes, strict=True):
        if place < list.__len__(target):
            list.__setitem__(target, place, item)


def set_popped_dict(target, changes):
    count, items = changes
    own = _own(target, collections.OrderedDict, dict)
    # An `OrderedDict` deletes a key that is taken off: where some stay that is done below.
    if own is dict or not items:
        for _ in range(min(count, len(target))):
            own.popitem(target)
    if items or target:
        set_dict(target, items)


def take_items(iterator, count):
    for _ in range(count):
        next(iterator, None)


def set_set(target, items):
    for item in target - items:
        target.discard(item)
    for item in items - target:
        target.add(item)


def set_global(namespace, name, value):
    namespace[name] = value


def delete_global(namespace, name):
    del namespace[name]


def array(held):
    return held.copy("K")


def number(tensor):
    return _item(tensor)


def read_array(tensor):
    return tensor.numpy().copy()


def graph_array(tensor):
    held = tensor.numpy()
    return held[()] if held.ndim == 0 else held.copy()


def set_cell(cell, value):
    cell.cell_contents = value


def clear_cell(cell):
    del cell.cell_contents


def enter(manager):
    type(manager).__enter__(manager)
    return manager


def enter_and_leave(manager):
    with manager:
        pass


def call_later(function):
    function()


def list_of_rows(rows):
    return [row.clone() for row in paddle.unbind(rows)] if rows.shape[0] else []


def tensor_or_none(holds, tensor):
    return tensor if holds else None


def show_line(parts):
    sep, end, *values = parts
    print(*values, sep=sep, end=end)


def set_grad(mode):
    from paddle.base import core

    core._set_has_grad(mode)
