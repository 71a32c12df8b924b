"""Functions that translated code follows in the place of others, one for each row that says `Polyfill`.

What those do in C, with locks or with classes and variables of modules of their own, no graph has; what comes of it, it
has. A break in one of them is a break at its call, which then runs natively.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import paddle
from paddle import framework
from paddle.nn.layer.rnn import RNNCellBase
from paddle.nn.quant import lsq

from ..api import graph_break
from . import quantisers


def stand_in(made: Any) -> Any:
    """An object that translated code sees as the one of C code in whose place a polyfill makes it.

    Its special methods and its attributes without an underscore are known, nothing else.
    """
    return made


class _Key:
    """What `functools.cmp_to_key` makes, and what that makes of an object."""

    def __init__(self, compare: Any) -> None:
        self._compare = compare

    def __call__(self, obj: Any) -> Any:
        key = _Key(self._compare)
        key.obj = obj  # type: ignore[attr-defined]
        return stand_in(key)

    def __lt__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) < 0  # type: ignore[attr-defined]

    def __gt__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) > 0  # type: ignore[attr-defined]

    def __eq__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]

    def __ne__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) != 0  # type: ignore[attr-defined]

    def __le__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) <= 0  # type: ignore[attr-defined]

    def __ge__(self, other: Any) -> Any:
        return self._compare(self.obj, other.obj) >= 0  # type: ignore[attr-defined]


def cmp_to_key(mycmp: Any) -> Any:
    """`functools.cmp_to_key(mycmp)`"""
    return stand_in(_Key(mycmp))


def dispatch(cls: Any, *, registry: Any = None) -> Any:
    """`dispatch(cls)` of what `functools.singledispatch` makes, without its cache of weak references."""
    if cls in registry:
        return registry[cls]
    for known in registry:
        if type(known) is not type:
            # An abstract class may be one of its bases without being in its `__mro__`.
            return functools._find_impl(cls, registry)  # type: ignore[attr-defined]
    for base in cls.__mro__:
        if base in registry:
            return registry[base]
    return None


class _Groups:
    """What `itertools.groupby` makes."""

    def __init__(self, iterable: Any, key: Any) -> None:
        self._items = iter(iterable)
        self._key_of = key
        # Nothing, or one object: the key of the last group, the key of the item at hand, and that.
        self._last: list[Any] = []
        self._key: list[Any] = []
        self._item: list[Any] = []
        self._group: Any = None

    def _step(self) -> None:
        item = next(self._items)
        key = item if self._key_of is None else self._key_of(item)
        self._item, self._key = [item], [key]

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self._group = None
        while not self._key or (self._last and _equal(self._last[0], self._key[0])):
            self._step()
        self._last = self._key
        self._group = group = _Group(self, self._key[0])
        return self._key[0], stand_in(group)


class _Group:
    """One of its groups: empty as soon as it is asked for the next one."""

    def __init__(self, groups: _Groups, key: Any) -> None:
        self._groups = groups
        self._key = key

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        groups = self._groups
        if groups._group is not self:
            raise StopIteration
        if not groups._item:
            groups._step()
        if not _equal(self._key, groups._key[0]):
            raise StopIteration
        item = groups._item[0]
        groups._item = groups._key = []
        return item


def _equal(a: Any, b: Any) -> bool:
    return b in (a,)  # By identity or equality, in this order.


def groupby(iterable: Any, key: Any = None) -> Any:
    """`itertools.groupby(iterable, key)`"""
    return stand_in(_Groups(iterable, key))


class _Reversed:
    """What `reversed` makes of an object with `__getitem__` and `__len__`."""

    def __init__(self, sequence: Any) -> None:
        self._sequence = sequence
        self._left = len(sequence)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self._left > 0:
            try:
                item = self._sequence[self._left - 1]
            except (IndexError, StopIteration):
                pass
            except BaseException:
                self._end()
                raise
            else:
                self._left -= 1
                return item
        self._end()
        raise StopIteration

    def _end(self) -> None:
        """Gives nothing more, and lets the sequence go."""
        self._sequence, self._left = None, 0

    def __length_hint__(self) -> int:
        if self._sequence is None:
            return 0
        length = len(self._sequence)
        return 0 if length < self._left else self._left


def reversed_items(sequence: Any) -> Any:
    """`reversed(sequence)`"""
    return stand_in(_Reversed(sequence))


def repr_once(self: Any, *, repr_running: Any = None, user_function: Any = None) -> Any:
    """`repr(self)` of a data class, or of another with `reprlib.recursive_repr`.

    Without its note of what is shown: an object within itself calls itself without end, which only the interpreter
    follows.
    """
    if repr_running:
        graph_break()
    return user_function(self)


def _twin(function: Any) -> Any:
    """Another function with its code: calls of the one itself come to a polyfill."""
    return types.FunctionType(function.__code__, function.__globals__, argdefs=function.__defaults__)


_initial_states = _twin(RNNCellBase.get_initial_states)


def initial_states(
    cell: Any, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
) -> Any:
    """`cell.get_initial_states(...)`: for the shape of one state, or a tuple of several, without a class for each."""
    reference = paddle.utils.flatten(batch_ref)[0]
    shape = cell.state_shape if shape is None else shape
    try:
        dtype = cell.state_dtype if dtype is None else dtype
    except NotImplementedError:
        dtype = framework.get_default_dtype()
    size = reference.shape[batch_dim_idx]
    alone = _is_shape(shape)
    usual = alone or (type(shape) is tuple and all(_is_shape(each) for each in shape))
    if not usual or isinstance(dtype, list | tuple | dict):
        return _initial_states(cell, batch_ref, shape, dtype, init_value, batch_dim_idx)
    made = []
    for each in (shape,) if alone else shape:
        dims = list(each[1:]) if each[0] == -1 else list(each)
        made.append(paddle.full(shape=[size, *dims], fill_value=init_value, dtype=dtype))
    return made[0] if alone else tuple(made)


def switch_case(branch_index: Any, branch_fns: Any, default: Any = None, name: Any = None) -> Any:
    """`paddle.static.nn.switch_case(...)`, without a look at its own frame: the pairs are asked from the last on."""
    pairs = list(branch_fns.items()) if isinstance(branch_fns, dict) else list(branch_fns)
    if all(callable(fn) for fn in pairs):
        pairs = list(enumerate(pairs))
    usual = all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
    if not usual or not all(isinstance(key, int) and callable(fn) for key, fn in pairs):
        graph_break("switch_case() of something else than functions with numbers")
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys) or not pairs or not (default is None or callable(default)):
        graph_break("switch_case() that raises")
    if default is None:
        # As in eager mode: that of the largest number.
        pairs = sorted(pairs, key=_number_of)
        default = pairs[-1][1]
        pairs = pairs[:-1]
    if not isinstance(branch_index, paddle.Tensor) or branch_index.size != 1:
        graph_break("switch_case() of something else than a number")
    for key, fn in reversed(pairs):
        if paddle.equal(branch_index.astype("int64"), paddle.full([1], key, "int64")).item():
            return fn()
    return default()


def _number_of(pair: Any) -> Any:
    return pair[0]


def assign_variable_of_loop(input: Any, output: Any) -> None:
    """`assign_skip_lod_tensor_array(input, output)`, which `paddle.static.nn.while_loop` writes variables with."""
    if isinstance(input, paddle.Tensor):
        if isinstance(output, paddle.Tensor) and list(input.shape) != list(output.shape):
            graph_break("while_loop() with a variable that changes its shape, which warns")
        paddle.assign(input, output)
    elif isinstance(output, paddle.Tensor) and isinstance(input, bool | float | int):
        paddle.assign(input, output)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(dim, int) for dim in value)


def count_elements(mapping: Any, iterable: Any) -> None:
    """`collections._count_elements(mapping, iterable)`, as Python has it where it is not written in C."""
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def sum_of_numbers(numbers: Any) -> Any:
    """`sum()` of a `range()` that the graph counts."""
    total = 0
    for number in numbers:
        total = total + number
    return total


def sum_of_tensors(tensors: Any) -> Any:
    """`sum()` of a list that grew in a captured loop; of none, the graph fails."""
    total = 0 + tensors[0]
    for place in range(1, len(tensors)):
        total = total + tensors[place]
    return total


def is_enabled_for(self: Any, level: int) -> bool:
    """`logging.Logger.isEnabledFor(self, level)` without its lock: threads that miss find the same answer."""
    if self.disabled:
        return False
    try:
        return self._cache[level]
    except KeyError:
        enabled = self.manager.disable < level and level >= self.getEffectiveLevel()
        self._cache[level] = enabled
        return enabled


# How Paddle's layers call the kernels of `_legacy_C_ops`.
_LINEAR = ("quant_axis", "bit_length", "qmin", "qmax")


def quantize_linear(*given: Any) -> Any:
    """`_legacy_C_ops.quantize_linear(x, scale, zero_point, *attributes)`"""
    return quantisers.quantise(*_of_linear(given))


def dequantize_linear(*given: Any) -> Any:
    """`_legacy_C_ops.dequantize_linear(x, scale, zero_point, *attributes)`"""
    return quantisers.dequantise(*_of_linear(given))


def _of_linear(given: Any) -> Any:
    if given[3::2] != _LINEAR:
        graph_break("quantize_linear() with other attributes")
    return (*given[:3], *given[4::2])


def fake_by_average(self: Any, input: Any) -> Any:
    """`FakeQuanterWithAbsMaxObserverLayer.dynamic_forward(self, input)`, without the name of its result."""
    return _by_average(self, input, self._bit_length)


def old_fake_by_average(self: Any, input: Any) -> Any:
    """`FakeQuantMovingAverageAbsMax.forward(self, input)`"""
    _reduce(self, self._scale)
    return _by_average(self, input, self._quant_bits)


def _by_average(self: Any, input: Any, bits: Any) -> Any:
    learns = self.training
    state = self._state if learns else None
    accumulated = self._accum if learns else None
    return quantisers.fake_by_average(input, self._scale, accumulated, state, self._moving_rate, bits, not learns)


def old_fake_by_largest(self: Any, input: Any) -> Any:
    """`FakeQuantAbsMax.forward(self, input)`"""
    _reduce(self, self._scale)
    return quantisers.fake_by_largest(input, self._scale, self._quant_bits)


def old_fake_by_channel(self: Any, input: Any) -> Any:
    """`FakeQuantChannelWiseAbsMax.forward(self, input)`"""
    _reduce(self, self._scale)
    return quantisers.fake_by_channel(input, self._scale, self._quant_bits, self._quant_axis)


def observe_by_average(self: Any, input: Any) -> Any:
    """`MovingAverageAbsMaxScale.forward(self, input)`, without the name of its result."""
    _reduce(self, self._scale)
    if not self.training:
        return paddle.assign(input)
    return quantisers.observe_by_average(input, self._scale, self._accum, self._state, self._moving_rate)


# They set their scales in their first calls.
lsq_of_activations = _twin(lsq.FakeQuantActLSQPlus.forward)
lsq_of_weights = _twin(lsq.FakeQuantWeightLSQPlus.forward)


def frozen_lsq_of_activations(self: Any, activation: Any) -> Any:
    """`FakeQuantActLSQPlus.forward(self, activation)` by the scale of the moment."""
    _has_learnt(self)
    if self.symmetric:
        return lsq.LsqFunc.apply(activation, self.s, self.g, self.Qn, self.Qp, per_channel=False)
    return lsq.LsqPlusActFunc.apply(activation, self.s, self.beta, self.g, self.Qn, self.Qp)


def frozen_lsq_of_weights(self: Any, weight: Any) -> Any:
    """`FakeQuantWeightLSQPlus.forward(self, weight)` by the scales of the moment."""
    _has_learnt(self)
    return lsq.LsqFunc.apply(weight, self.s, self.g, self.Qn, self.Qp, self.per_channel, self.quant_axis)


def _has_learnt(self: Any) -> None:
    if self.init_state < max(self.batch_init, 1):
        graph_break("a quanter that sets its scales in its first `batch_init` calls, and had fewer")


def _reduce(self: Any, scale: Any) -> None:
    if self._reduce_type == "max":
        paddle.distributed.all_reduce(scale, op=paddle.distributed.ReduceOp.MAX)
