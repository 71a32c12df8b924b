"""One program under construction, call by call."""

import functools
import types
from math import prod

import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir

from paddle_sot_rs._core import PYTHON_NUMBER
from paddle_sot_rs._paddle import tracing
from paddle_sot_rs._paddle.alike_calls import INPUTS, AlikeCalls
from paddle_sot_rs._paddle.blocks import ROWS, remove
from paddle_sot_rs._paddle.calls.argument_checks import allow, name_of
from paddle_sot_rs._paddle.calls.call_rewrites import as_traced, call_method
from paddle_sot_rs._paddle.calls.operation_checks import refuse
from paddle_sot_rs._paddle.constants import DATA
from paddle_sot_rs._paddle.effects import first_random, reads_statistics, written
from paddle_sot_rs._paddle.gradients import grad_reachability
from paddle_sot_rs._paddle.gradients.backward import inner_operations, with_inner
from paddle_sot_rs._paddle.gradients.stop_gradients import stop_where_eager_stops
from paddle_sot_rs._paddle.open_dims import asked, correct
from paddle_sot_rs._paddle.passes.python_numbers import DIMS, NO_CHOICE, of_numbers, read_dims
from paddle_sot_rs._paddle.static_mode import Placing, Window
from paddle_sot_rs._paddle.strides import mark_copies
from paddle_sot_rs._paddle.value_patches import Value, dims

# What a program is, around its block.
_PROGRAM = "builtin.module"
_WHOLE_NUMBERS = (paddle.int32, paddle.int64)
# Operations that cost nothing.
NO_WORK = frozenset((DATA, "pd_op.full", "pd_op.full_int_array", "builtin.combine", "builtin.split"))


class Trace:
    """One program under construction."""

    def __init__(self, inspect=None):
        # Looks at the operations of each call; what it raises undoes the call.
        self.inspect = inspect
        self.program = paddle.static.Program()
        self.startup = paddle.static.Program()
        self.block = self.program.global_block()
        self.external = {}
        self.fresh = []
        # What the last call has asked of open dims: the id of a value and where the dim is, the
        # comparison, the same of the other (or a number), and what was answered.
        self.asked = []
        # Whether the last call has computed with the -1 of an open dim.
        self.computes = False
        # Whether it has asked for its sign.
        self.asks = False
        # Whether it has copied what other calls of it make a view of.
        self.copies = False
        # Whether it draws random numbers.
        self.draws = False
        # Values from elsewhere that it writes.
        self.updated = []
        # Captured branches, by the first of their results.
        self.branches = {}
        # Values whose first gradient is of a `backward` of the user's, and says that it stops.
        self.stopping = set()
        self.conditions = grad_reachability.Conditions()
        # What was appended for each call, by its results.
        self.calls = {}
        # All operations, with those inside of others, while none is added.
        self.known = []
        # Values whose operations the last gradients that were made go back through: their ids.
        self.gone_through = frozenset()
        # Steps of optimizers, and those of these that were gone through in front of the last one.
        self.renewals = []
        self.freed = frozenset()
        # Whether branches say what gradients reach through them.
        self.notes_ways = False
        # Whether a part of the program is traced once more, for its gradient.
        self.repeats = False
        # Whether numbers of Python that differ between calls are among the inputs.
        self.takes_numbers = False
        # What calls appended, for those that are alike.
        self.alike = AlikeCalls(self)
        # The tensors that the last call has met, known ones too: their ids.
        self.met = {}
        # How many operations there are; None where they are to be counted.
        self.counted = None

    def input(self, tensor, shape):
        known = self.external.get(id(tensor))
        if known is not None:
            return known[1]
        placing = Placing(self.block)
        try:
            value = self._data(tensor, shape)
        finally:
            placing.close()
        self.external[id(tensor)] = (tensor, value)
        return value

    def _data(self, tensor, shape):
        value = INPUTS.made(f"sot_x{len(self.external)}", shape, tensor.dtype)
        self.counted = None
        value.stop_gradient = tensor.stop_gradient
        # What differs between calls: `dynamic_scalar` names it so.
        if type(tensor) is paddle.Tensor and tensor.name == PYTHON_NUMBER:
            value.get_defining_op().set_bool_attr(PYTHON_NUMBER, True)
            self.takes_numbers = True
        return value

    def cast(self, tensor):
        if not isinstance(tensor, paddle.Tensor):
            return tensor
        known = self.external.get(id(tensor))
        if known is None:
            here = pir.get_current_insertion_point()
            # A layer may meet it in a loop of its own. Inputs stand in no block of an operation.
            outer = here.block().parent_op
            while outer.name() != _PROGRAM:
                pir.set_insertion_point(outer)
                outer = outer.get_parent_block().parent_op
            known = self.external[id(tensor)] = (tensor, self._data(tensor, list(tensor.shape)))
            pir.set_insertion_point(here)
            self.fresh.append(tensor)
        self.met[id(tensor)] = None
        return known[1]

    def call(self, function, args, kwargs, is_layer, grad):
        """Traces one call.

        The answer is its result, tensors met for the first time, whether a view became a copy, whether it draws.
        """
        self.fresh, self.known, self.asked = [], [], []
        self.updated, self.met = [], {}
        self.computes = self.asks = self.copies = False
        self.draws = False
        self.notes_ways = grad
        signature = self.alike.signature(function, args, kwargs, is_layer, grad)
        recorded = self.alike.find(signature)
        if recorded is not None:
            result = self._again(recorded, signature)
        else:
            allow(name_of(function), args, kwargs)
            with tracing.building(self):
                result = self._call(*as_traced(function, args, kwargs), is_layer, grad, signature)
        return result, self.fresh, self.copies, self.draws, self.computes

    def _again(self, recorded, signature):
        """A call that is alike one that was made: copies of the operations of that."""
        start, placing = self.size(), Placing(self.block)
        try:
            operations, result = recorded.again(self, signature)
            for renewal in self.renewals:
                renewal.check(operations)
        except BaseException:
            self._undo(start, None)
            self._forget_fresh()
            raise
        finally:
            placing.close()
        self.counted = end = start + len(operations) + len(self.fresh)
        for value in _values(result):
            if value.id not in signature.places:
                self.calls[value.id] = start, end, False
        return result

    def _forget_fresh(self):
        for tensor in self.fresh:
            self.external.pop(id(tensor), None)

    def _call(self, function, args, kwargs, is_layer, grad, signature):
        window = Window(self.program, self.startup, self.cast)
        if is_layer:
            framework.global_var._in_to_static_mode_ = True
        start, self.counted = self.size(), None
        given = [(value, value.stop_gradient) for value in _values((args, kwargs))]
        first = self._first()
        try:
            if type(function) is str:
                result = call_method(args[0], function, args[1:], kwargs)
            else:
                result = function(*args, **kwargs)
            for value, stops in given:
                if value.stop_gradient is not stops and value.dtype in _WHOLE_NUMBERS:
                    # A size in a list: Paddle says that no gradient goes to it.
                    value.stop_gradient = stops
            if any(value.stop_gradient is not stops for value, stops in given):
                raise NotImplementedError("a call that cuts the gradients of its arguments while a program is built")
            if first is not None and self._first() != first:
                raise NotImplementedError("a call that makes a parameter of the program")
            self.counted = None
            end = self.size()
            operations = self._since(start, end)
            if not grad:
                for value in _values(result):
                    value.stop_gradient = True
            else:
                stop_where_eager_stops(operations)
            correct(operations)
            refuse(operations, args, kwargs)
            for renewal in self.renewals:
                if renewal.size <= start:
                    renewal.check(operations)
            self.copies = mark_copies(operations)
            self.draws = first_random(operations) is not None
            computes, asks = self.computes, self.asks
            if self.inspect is not None:
                self.inspect(function, operations, result)
            self.asked += asked(operations)
            if (computes or asks or self.asked) and not self._is_open():
                raise NotImplementedError("computing with a dim that only the graph knows")
            made = {value.id for op in operations for value in op.results()}
            self.updated = self._updated(operations, made)
            for value in _values(result):
                # What is returned as it was given was made by another call.
                if value.id in made:
                    self.calls[value.id] = start, end, computes
            self.alike.note(signature, operations, end, result)
            self.counted = end
        except BaseException:
            for value, stops in given:
                value.stop_gradient = stops
            self._undo(start, first)
            self._forget_fresh()
            raise
        finally:
            window.close()
        return result

    def _updated(self, operations, made):
        found = [value.id for op in with_inner(operations) for value in written(op) if not reads_statistics(op)]
        # A layer meets its buffers while it is called.
        own = made.difference(value.id for _, value in self.external.values()) if found else made
        return [name for name in found if name not in own]

    def _is_open(self):
        """Whether dims of inputs are open: what is made of those is compared with what it is where they are known."""
        return any(-1 in value.shape for _, value in self.external.values())

    def placeholder(self, shape, dtype, stop_gradient):
        window = Window(self.program, self.startup, self.cast)
        try:
            value = _C_ops.data(f"sot_p{self.size()}", shape, getattr(paddle, dtype), core.Place())
            value.stop_gradient = stop_gradient
        finally:
            self.counted = None
            window.close()
        return value

    def operations(self):
        return sum(op.name() not in NO_WORK for op in self.block.ops)

    def eager_cost(self, called):
        """What eager mode spends on these calls, in plain operations.

        Paddle's Python code around them counts, and tensors that a program makes once for all.
        """
        operations = self.block.ops
        made = sum(op.name() == "pd_op.full" and prod(op.results()[0].shape) > 1 for op in operations)
        around = sum(_OF_A_LAYER * is_layer + _OF_FLAGS * _asks_for_flags(function) for function, is_layer in called)
        return max(self.operations() - self._of_numbers(operations), 0) + made + around

    def has_numbers(self):
        """Whether something in it may compute what plain Python computes without an operation."""
        return self.takes_numbers or read_dims(self.block.ops)

    def _of_numbers(self, operations):
        """What Python computes without an operation, in operations of eager mode: also what a program spends on it."""
        if not self.has_numbers():
            return 0
        found = of_numbers(operations)
        count = sum(op.name() not in NO_WORK for op in found)
        return count + count // _NUMBERS_OF_ONE

    def size(self):
        """How many operations there are, with those inside of others. Paddle goes through all of them."""
        if self.counted is None:
            self.counted = self.block.num_ops()
        return self.counted

    def _since(self, start, end):
        """The operations of the block itself that were appended between these sizes; the last one is the block's."""
        pir.set_insertion_point_to_block_end(self.block)
        point = pir.get_current_insertion_point()
        found, missing = [], end - start
        while missing > 0:
            op = point.prev()
            found.append(op)
            missing -= 1 + sum(1 for _ in inner_operations(op))
        return found[::-1]

    def _first(self):
        """The first operation: Paddle puts parameters in front of it. None where there is none."""
        return None if self.block.empty() else self.block.front().id()

    def _undo(self, size, first):
        """Removes what a call has appended, and what it has put in front of all others."""
        before = 0
        if first is not None and self._first() != first:
            before = next(at for at, op in enumerate(self.block.ops) if op.id() == first)
        self.rollback(size + before)
        for _ in range(before):
            remove(self.block, self.block.front(), self.branches)

    def renew(self, renewal, old, new):
        """From here on tensors are other values: parameters, behind a step of their optimizer."""
        becomes = {value.id: other for value, other in zip(old, new, strict=True)}
        for name, (tensor, value) in self.external.items():
            if value.id in becomes:
                renewal.before.append((name, tensor, value))
        for name, tensor, value in renewal.before:
            self.external[name] = tensor, becomes[value.id]
        self.renewals.append(renewal)
        self.freed = self.gone_through

    def rollback(self, size):
        self.alike.forget(size)
        self.counted = None
        while self.renewals and self.renewals[-1].size > size:
            renewal = self.renewals.pop()
            self.freed = renewal.freed
            for name, tensor, value in renewal.before:
                if name in self.external:
                    self.external[name] = tensor, value
        while self.block.num_ops() > size:
            remove(self.block, self.block.back(), self.branches)

    def made(self, value):
        """The operations of the call that returned `value`, by name, attributes and number of operands.

        Without parameters that become inputs there: a call that is a copy of an alike one has them in front.

        None where it is not known, and where they read dims at run time, or broadcast, and nothing computes with the
        -1 of open ones: who has written that knows of open dims.
        """
        if value.id not in self.calls:
            return None
        start, end, computes = self.calls[value.id]
        if not self.known:
            self.known = list(with_inner(self.block.ops))
        computed = (op for op in self.known[start:end] if op.name() != DATA and not op.has_attr(ROWS))
        described = [_described(op) for op in computed]
        reads_dims = any(name in _READ_DIMS for name, *_ in described)
        return None if reads_dims and not computes else described

    def let_go(self):
        """Lets go of the tensors that it was given: no call is traced any more."""
        self.external, self.fresh, self.met = {}, [], {}
        self.alike = AlikeCalls(self)

    def forget(self, tensors):
        for tensor in tensors:
            self.external.pop(id(tensor), None)


# As many operations for numbers cost a program what one operation costs eager mode.
_NUMBERS_OF_ONE = 3

# What eager mode spends around operations: on the call of a layer, on a look at Paddle's flags.
_OF_A_LAYER, _OF_FLAGS = 1, 2


def _asks_for_flags(function):
    if getattr(function, "__module__", "").split(".")[0] != "paddle":
        return False
    return hasattr(function, "__code__") and _is_asking(function)


# By the function alone: the hash of its code takes as long as a small operation.
@functools.cache
def _is_asking(function):
    """Whether the function or one that it names does."""
    code, space = function.__code__, function.__globals__
    names = code.co_names
    modules = [space[name] for name in names if isinstance(space.get(name), types.ModuleType)]
    named = [space.get(name) for name in names] + [vars(module).get(name) for module in modules for name in names]
    codes = [code, *(value.__code__ for value in named if isinstance(value, types.FunctionType))]
    return any("get_flags" in code.co_names for code in codes)


def _values(result):
    """All Values in what a call returned."""
    if isinstance(result, Value):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from _values(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from _values(item)


_READ_DIMS = ("pd_op.broadcast_tensors", *DIMS)
_RESHAPES = ("pd_op.reshape", "pd_op.reshape_")


def _described(op):
    attributes = {name: repr(value) for name, value in op.attrs().items() if name not in NO_CHOICE}
    if op.name() == "pd_op.full_int_array" and (reshapes := _reshapes_to(op.result(0))):
        attributes["value"] = _Shape(op.attrs()["value"], reshapes)
    return op.name(), attributes, op.num_operands()


def _reshapes_to(value):
    """What is reshaped to a list of sizes; empty where something else reads it."""
    users = value.all_used_ops()
    reshape = all(op.name() in _RESHAPES and op.operand_source(1).is_same(value) for op in users)
    return [op.operand_source(0) for op in users] if reshape else []


class _Shape:
    """The sizes of a reshape, for a comparison of those with open dims and with known ones.

    A -1 is what the others leave. Where one dim alone is open, and none is 0, that is the size for any number of
    elements.
    """

    def __init__(self, sizes, given):
        self._sizes = sizes
        known = [sizes, *map(dims, given)]
        self._leaves = all(of.count(-1) == 1 and 0 not in of for of in known)

    def __eq__(self, other):
        pairs = zip(self._sizes, other._sizes, strict=False)
        alike = (one == size or (self._leaves and one == -1) for one, size in pairs)
        return len(self._sizes) == len(other._sizes) and all(alike)

    def __hash__(self):
        return len(self._sizes)
