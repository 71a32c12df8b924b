"""Program building: the part of the backend that talks to Paddle's Python-only interfaces.

Everything here runs while a frame is translated, never on the warm path.
"""

import itertools
import math
import sys
import threading

import numpy
import paddle
from paddle import _C_ops
from paddle.base import core, framework
from paddle.base.libpaddle import pir
from paddle.jit.dy2static.utils import CUDAGraphState
from paddle.nn.layer import layers as layers_module
from paddle.pir import core as pir_core
from paddle.pir import get_fake_value_name, is_fake_value
from paddle_sot_rs import _again as again
from paddle_sot_rs import _reach as reach
from paddle_sot_rs._backward import RANDOM, REGIONS, SHARES, blocks_of, gradients, inner_operations
from paddle_sot_rs._gates import gates_of
from paddle_sot_rs._reads import read_back

Value = pir.Value
_program_numbers = itertools.count(1)


def _new_program_id():
    """Paddle finds executors by 65 times the program's id plus a quarter of the scope's address, modulo 2**64: this far
    apart (addresses have 47 bits) no other program's id and scope come to the same sum.
    """
    spread = (next(_program_numbers) << 46) % (1 << 64)
    return spread - (1 << 64) if spread >> 63 else spread


# Attributes that name one, in the order in which Paddle looks for them.
_LAYOUTS = ("data_format", "data_layout")


class _NoStruct:
    """Stands in for `name_struct`, which walks the whole program for every layer call."""

    __slots__ = ()

    def __call__(self, *args):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


_no_struct = _NoStruct()
_missing = object()


# Paddle keeps the mode per thread, but the current program and its insertion point per process, and
# eager code moves them too (`optimizer.step` runs under `program_guard`). While a window is open
# other threads wait before they do; the lock gives up the GIL.
_turn = threading.RLock()
_switch_main_program = pir_core.switch_main_program


def _switch_in_turn(program, insertion_point=None):
    with _turn:
        return _switch_main_program(program, insertion_point)


pir_core.switch_main_program = _switch_in_turn


_static_divide, _static_power = Value.__truediv__, Value.__pow__
_static_floor_divide, _static_reversed_floor_divide = Value.__floordiv__, Value.__rfloordiv__


def _scalar(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _divide(self, other):
    # Eager mode divides by a tensor, static mode multiplies by the reciprocal: the last digit differs.
    if not _scalar(other):
        return _static_divide(self, other)
    value = self
    if value.dtype in _INTEGERS:
        value = value.astype(paddle.float32)
    return _C_ops.divide(value, _C_ops.full([], other, value.dtype, core.Place()))


def _power(self, other):
    # Eager mode uses the kernel with a number for the exponent.
    if _scalar(other) and self.dtype not in _INTEGERS:
        return _C_ops.pow(self, other)
    result = _static_power(self, other)
    return _with_rank_one(self, other, result) if isinstance(other, bool) else result


def _with_rank_one(value, other, result):
    # Where eager mode makes a tensor of the number, it makes one of shape [1].
    if isinstance(other, (int, float)) and not value.shape and not result.shape:
        return _C_ops.reshape(result, [1])
    return result


def _floor_divide(self, other):
    return _with_rank_one(self, other, _static_floor_divide(self, other))


def _reversed_floor_divide(self, other):
    return _with_rank_one(self, other, _static_reversed_floor_divide(self, other))


def _positive(self):
    return self


def _detach(self):
    # Paddle's `share_data_` hides that the result lives in the storage of `self`: a later kernel that writes in
    # place would change a tensor of the caller.
    copy = _for_view(self)
    copy.stop_gradient = True
    return copy


def _for_view(value):
    """A copy of what eager mode has a view of."""
    copy = _C_ops.assign(value)
    if current is not None and current.notes_ways:
        copy.get_defining_op().set_bool_attr(SHARES, True)
    return copy


class _OpenDim(int):
    """The -1 of an open dim of a Value. Functions that compare two of them in Python take them for equal."""

    def __eq__(self, other):
        if type(other) is _OpenDim and other.place != self.place and current is not None:
            current.compared.append((*self.place, *other.place))
        return int.__eq__(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


_static_shape = Value.shape


def _shape(self):
    shape = _static_shape.__get__(self)
    if -1 in shape:
        for at, dim in enumerate(shape):
            if dim == -1:
                shape[at] = _OpenDim(-1)
                shape[at].place = str(self.id), at
    return shape


_INTEGERS = (paddle.bool, paddle.uint8, paddle.int8, paddle.int16, paddle.int32, paddle.int64)
# What a Value does otherwise than a tensor, and what it does in a window.
_AS_EAGER = {
    "__truediv__": _divide,
    "__div__": _divide,
    "__pow__": _power,
    "__floordiv__": _floor_divide,
    "__rfloordiv__": _reversed_floor_divide,
    "__pos__": _positive,
    "detach": _detach,
    "shape": property(_shape),
}
_AS_STATIC = {name: getattr(Value, name) for name in _AS_EAGER if hasattr(Value, name)}


def _like_eager(names):
    for name, function in names.items():
        setattr(Value, name, function)


def _set_tracer(tracer):
    # Not by assignment: that also sets what other threads begin with, which must not be static mode.
    framework.global_var.__dict__["_dygraph_tracer_"] = tracer
    core._switch_tracer(tracer)


class Window:
    """Static mode, on and off. Nothing of the user's runs inside."""

    __slots__ = ("amp", "level", "saved")

    def __init__(self, program, startup, cast):
        _turn.acquire()
        variables = framework.global_var
        self.saved = saved = [
            variables._dygraph_tracer_,
            getattr(sys, "tracebacklimit", _missing),
            None,
            None,
            None,
        ]
        saved[3] = (layers_module.name_struct, pir_core._convert_into_value, variables._in_to_static_mode_)
        # A graph is traced under auto_cast only where that casts nothing (on a CPU); programs would cast.
        self.amp = core._get_amp_attrs()
        self.level, self.amp._amp_level = self.amp._amp_level, core.AmpLevel.O0
        sys.tracebacklimit = 0
        layers_module.name_struct = _no_struct
        pir_core._convert_into_value = cast
        saved[4] = pir_core.set_static_op_arg_pre_cast_hook(cast)
        _set_tracer(None)
        _like_eager(_AS_EAGER)
        saved[2] = (_switch_main_program(program), pir_core.switch_startup_program(startup))

    def close(self):
        variables = framework.global_var
        tracer, limit, programs, names, hook = self.saved
        (main, point), startup = programs
        _switch_main_program(main, point)
        pir_core.switch_startup_program(startup)
        _like_eager(_AS_STATIC)
        _set_tracer(tracer)
        self.amp._amp_level = self.level
        pir_core.set_static_op_arg_pre_cast_hook(hook)
        layers_module.name_struct, pir_core._convert_into_value, variables._in_to_static_mode_ = names
        if limit is _missing:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = limit
        _turn.release()


_NO_WORK = frozenset(("pd_op.data", "pd_op.full", "pd_op.full_int_array", "builtin.combine", "builtin.split"))


_PRODUCTS = frozenset(("pd_op.matmul", "pd_op.linear_v2", "pd_op.fused_gemm_epilogue"))


_CONSTANT_DTYPES = ("bool", "int32", "int64", "float32")


def _constant(data, dtype=None):
    # Static mode rounds numbers to the default dtype first; eager mode decides what they are.
    array = paddle.to_tensor(data, dtype).numpy()
    if array.dtype not in _CONSTANT_DTYPES:
        raise TypeError(f"a constant of dtype {array.dtype}")
    # Attributes of operations forget the sign of a zero.
    if array.dtype.kind in "fc" and _signed_zero(array):
        raise TypeError("a constant with a negative zero")
    if array.dtype == numpy.int64 and (array.astype("float64").astype("object") != array.astype("object")).any():
        raise TypeError("a constant that a program rounds to doubles")
    return array


def _signed_zero(array):
    return any((numpy.signbit(part) & (part == 0)).any() for part in (array.real, array.imag))


class CallByCall(Exception):
    """Raised while compiling: no program does what this graph does, and it is no failure."""


class BlackListed(Exception):
    """Raised by an inspection: this call is left to the interpreter."""


# With a tensor for an attribute, the static bindings of these end the process. How many tensors come first; others
# have one of the names.
_TENSORS_FIRST = {
    **dict.fromkeys(("all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "logsumexp"), 1),
    **dict.fromkeys(("nanmean", "nanmedian", "nansum", "permute", "squeeze", "sum"), 1),
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
    )
)


def _has_tensor(item):
    if isinstance(item, (list, tuple)):
        return any(map(_has_tensor, item))
    return isinstance(item, (Value, paddle.Tensor))


# With sizes or places that are no whole numbers these end the process, too: where those begin.
_WHOLE = {
    **dict.fromkeys(("randn", "standard_normal"), 0),
    **dict.fromkeys(("broadcast_to", "expand", "repeat", "reshape", "roll", "tile", "unsqueeze"), 1),
    **dict.fromkeys(("max", "mean", "min", "prod", "std", "var"), 1),
    **dict.fromkeys(("affine_grid", "crop", "flip", "slice", "strided_slice"), 1),
    **dict.fromkeys((f"adaptive_{kind}_pool{dims}d" for kind in ("avg", "max") for dims in (1, 2, 3)), 1),
}
# With lists that have such tensors in them; one alone is another operand.
_WHOLE_IN_LISTS = ("pad", "interpolate", "upsample", "conv1d_transpose", "conv2d_transpose", "conv3d_transpose")


def _name_of(function):
    return function if type(function) is str else (getattr(function, "__name__", None) or "").removeprefix("_")


def _check_attributes(name, args, kwargs):
    if name in _WHOLE or name in _WHOLE_IN_LISTS:
        named = (value for key, value in kwargs.items() if key not in _TENSOR_NAMES)
        for given in (*args[_WHOLE.get(name, 1) :], *named):
            alone = (given,) if name in _WHOLE else ()
            for value in given if isinstance(given, (list, tuple)) else alone:
                if isinstance(value, (Value, paddle.Tensor)) and value.dtype not in (paddle.int32, paddle.int64):
                    raise TypeError(f"{name}() with a tensor of {value.dtype}")
    first = _TENSORS_FIRST.get(name)
    if first is None:
        return
    given = [*args[first:], *(value for key, value in kwargs.items() if key not in _TENSOR_NAMES)]
    if any(map(_has_tensor, given)):
        raise TypeError(f"{name}() with a tensor for an attribute")


def _as_traced(function, args, kwargs):
    """The call that does in a program what this one does in eager mode."""
    if function is paddle.to_tensor:
        return paddle.assign, [_constant(*args, **kwargs)], {}
    return function, args, kwargs


def call_method(value, name, args, kwargs):
    """`value.name(*args, **kwargs)`; looked up here: some act as in eager mode while the window is open."""
    result = getattr(value, name)(*args, **kwargs)
    if name == "__getitem__" and result is value:
        return _for_view(result)
    return result


# The trace whose program is being built. Nothing between two calls: a trace holds the tensors that its program takes.
current = None


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
        # Open dims that the last call has compared with each other: the ids of their values, and where they are.
        self.compared = []
        # Captured branches, by the first of their results.
        self.branches = {}
        self.conditions = reach.Conditions()
        # What was appended for each call, by its results.
        self.calls = {}
        # All operations, with those inside of others, while none is added.
        self.known = []
        # Whether branches say what gradients reach through them.
        self.notes_ways = False
        # Whether a part of the program is traced once more, for its gradient.
        self.repeats = False

    def input(self, tensor, shape):
        known = self.external.get(id(tensor))
        if known is not None:
            return known[1]
        window = Window(self.program, self.startup, self.cast)
        try:
            value = self._data(tensor, shape)
        finally:
            window.close()
        self.external[id(tensor)] = (tensor, value)
        return value

    def _data(self, tensor, shape):
        value = _C_ops.data(f"sot_x{len(self.external)}", shape, tensor.dtype, core.Place())
        value.stop_gradient = tensor.stop_gradient
        return value

    def cast(self, tensor):
        if not isinstance(tensor, paddle.Tensor):
            return tensor
        known = self.external.get(id(tensor))
        if known is None:
            known = self.external[id(tensor)] = (tensor, self._data(tensor, list(tensor.shape)))
            self.fresh.append(tensor)
        return known[1]

    def call(self, function, args, kwargs, is_layer, grad):
        """Traces one call; the answer is (result, tensors met for the first time)."""
        global current
        self.fresh, self.known, self.compared = [], [], []
        around, current = current, self
        self.notes_ways = grad
        name = _name_of(function)
        _check_attributes(name, args, kwargs)
        _check_parts(name, args, kwargs)
        function, args, kwargs = _as_traced(function, args, kwargs)
        window = Window(self.program, self.startup, self.cast)
        if is_layer:
            framework.global_var._in_to_static_mode_ = True
        start = self.size()
        try:
            if type(function) is str:
                result = call_method(args[0], function, args[1:], kwargs)
            else:
                result = function(*args, **kwargs)
            end = self.size()
            operations = self._since(start, end)
            if not grad:
                for value in _values(result):
                    value.stop_gradient = True
            else:
                _stop_where_eager_stops(operations)
            _refuse_mixed_products(operations)
            _refuse_rounded_numbers(operations, args, kwargs)
            for value in _values(result):
                self.calls[value.id] = start, end
            if self.inspect is not None:
                self.inspect(function, operations, result)
        except BaseException:
            self.rollback(start)
            for tensor in self.fresh:
                self.external.pop(id(tensor), None)
            raise
        finally:
            current = around
            window.close()
        return result, self.fresh

    def placeholder(self, shape, dtype, stop_gradient):
        window = Window(self.program, self.startup, self.cast)
        try:
            value = _C_ops.data(f"sot_p{self.size()}", shape, getattr(paddle, dtype), core.Place())
            value.stop_gradient = stop_gradient
        finally:
            window.close()
        return value

    def operations(self):
        return sum(op.name() not in _NO_WORK for op in self.block.ops)

    def size(self):
        """How many operations there are, with those inside of others. Paddle makes `block.ops` anew each time."""
        return self.block.num_ops()

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

    def rollback(self, size):
        while self.size() > size:
            op = self.block.back()
            if self.branches and op.name() in REGIONS:
                # Addresses are used again.
                for dead in (op, *inner_operations(op)):
                    for value in dead.results():
                        self.branches.pop(value.id, None)
            self.block.remove_op(op)

    def made(self, value):
        """The operations of the call that returned `value`, by name, attributes and number of operands.

        None where it is not known, and where they read dims at run time: who has written that knows of open dims.
        """
        if value.id not in self.calls:
            return None
        start, end = self.calls[value.id]
        if not self.known:
            self.known = [one for op in self.block.ops for one in (op, *inner_operations(op))]
        described = [_described(op) for op in self.known[start:end]]
        return None if any(name in _READ_DIMS for name, *_ in described) else described

    def forget(self, tensors):
        for tensor in tensors:
            self.external.pop(id(tensor), None)


# Give a result for each item along an axis.
_TAKES_APART = ("unbind", "unstack")


def _check_parts(name, args, kwargs):
    """Refuses results of unknown number: they end the process inside Paddle."""
    if name not in _TAKES_APART:
        return
    value = args[0] if args else next((kwargs[key] for key in ("x", "input") if key in kwargs), None)
    axis = args[1] if len(args) > 1 else kwargs.get("axis", kwargs.get("dim", 0))
    # A slice of an open dim too.
    if isinstance(value, Value) and isinstance(axis, int) and -1 in value.shape[axis:][:1]:
        raise NotImplementedError(f"{name}() along an open dim")


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


_READ_DIMS = ("pd_op.shape", "pd_op.shape64")


def _described(op):
    attributes = {name: repr(value) for name, value in op.attrs().items() if name not in _NO_CHOICE}
    return op.name(), attributes, op.num_operands()


# Attributes that say nothing about what an operation computes.
_NO_CHOICE = ("stop_gradient", "op_callstack", "struct_name", "target_shape")


# No operations of their own in eager mode.
_TRANSPARENT = ("builtin.combine", "builtin.split", "builtin.slice")
_differentiable = {}


def _refuse_mixed_products(operations):
    """Static mode multiplies matrices of two types, eager mode refuses or takes the type of the first."""
    for op in operations:
        if op.name() in _PRODUCTS:
            first, *rest = (value.dtype for value in op.operands_source() if value.initialized())
            if any(dtype != first for dtype in rest):
                raise TypeError("a matrix product of tensors of two types")


# They take a number as a tensor of floats, which rounds it.
_SCALED = {"pd_op.scale", "pd_op.clip", "pd_op.pad", "pd_op.full_like", "pd_op.cast"}
_WRITTEN_OUT = {"pd_op.assign_value", "pd_op.assign_value_"}
_WIDE = {paddle.float64, paddle.complex64, paddle.complex128}


def _refuse_rounded_numbers(operations, args, kwargs):
    """Next to doubles, eager mode takes all digits of a number. Of one that Paddle's code wrote, the float is left: it
    was rounded, most likely, when it has more than twelve binary digits."""
    for op in operations:
        name = op.name()
        if name not in _SCALED or op.result(0).dtype not in _WIDE:
            continue
        makers = [value.get_defining_op() for value in op.operands_source() if value.dtype == paddle.float32]
        makers = [maker for maker in makers if maker is not None]
        if name == "pd_op.cast":
            made = {value.id for op in operations for value in op.results()}
            if any(maker.name() in _WRITTEN_OUT and maker.result(0).id in made for maker in makers):
                raise TypeError("a constant that a program rounds to a float next to doubles")
            continue
        numbers = [maker.attrs()["value"] for maker in makers if maker.name() == "pd_op.full"]
        if name == "pd_op.scale":
            numbers.append(op.attrs()["bias"])
        rounded = any(type(given) is float and numpy.float32(given) != given for given in (*args, *kwargs.values()))
        for number in numbers:
            digits = numpy.float32(number).view(numpy.int32)
            # The largest double is infinite as a float.
            if math.isinf(number) or number % 1 and (rounded or digits % 2**11):
                raise TypeError("a number that a program rounds to a float next to doubles")


def _stop_where_eager_stops(operations):
    """No gradient flows through an operation without a rule for it; static mode only looks at the inputs."""
    for op in operations:
        results = [value for value in op.results() if value.initialized() and not value.stop_gradient]
        if not results:
            continue
        operands = [value for value in op.operands_source() if value.initialized()]
        name = op.name()
        if not operands or name in REGIONS:
            # Data and parameters say themselves what they are; what a nested graph uses are no operands.
            continue
        known = _differentiable.get(name)
        if known is None:
            known = name in _TRANSPARENT or core.has_vjp(op)
            _differentiable[name] = known
        if op.num_regions():
            # What the blocks use is not among the operands.
            continue
        if not known or all(value.stop_gradient for value in operands):
            for value in results:
                value.stop_gradient = True


def _all_values(program):
    values = {}
    for op in program.global_block().ops:
        # Operands are results of earlier operations; optional results may be absent.
        for value in op.results():
            if value.initialized():
                values.setdefault(value.id, value)
    return values.values()


# What these give is there before the run.
_GIVEN = frozenset(("pd_op.data", "builtin.parameter"))
# Of a size that is not told, and none on a CPU.
_WITH_WORK_SPACE = frozenset(("pd_op.batch_norm", "pd_op.batch_norm_"))


def _memory(programs):
    """Bytes of all that the operations make, of eight bytes a number; None where a dim is open."""
    total = 0
    for program in programs:
        for op in program.global_block().ops:
            if op.name() in _GIVEN:
                continue
            for value in op.results():
                # The values in a list are results of the operation that takes it apart.
                if value.initialized() and value.is_dense_tensor_type():
                    shape = value.shape
                    if -1 not in shape:
                        total += 8 * math.prod(shape)
                    elif op.name() not in _WITH_WORK_SPACE:
                        return None
    return total


def _unify_names(program, mapping):
    mapping = dict(mapping)
    for value in list(_all_values(program)):
        if value.has_name:
            name = mapping.get(value.name, value.name)
            mapping.update(value._rename(name, program.global_block()))
    return mapping


def _name(value):
    return get_fake_value_name() if is_fake_value(value) else value.name


_SHARES_STORAGE = frozenset(
    f"pd_op.{name}"
    for name in (
        *("data", "reshape", "reshape_", "squeeze", "unsqueeze", "flatten", "transpose", "slice", "strided_slice"),
        *("split", "split_with_num", "unbind", "unstack", "expand", "as_strided", "view_shape", "view_dtype"),
        *("tensor_unfold", "diagonal", "share_data_", "shape", "memcpy", "assign", "cast", "dropout", "real", "imag"),
    )
) | {"builtin.split", "builtin.slice", "builtin.parameter"}


def _keep_operands(block):
    """Copies operands of `einsum` that something else uses too.

    Its gradient finds them in a cache that may share their storage, which Paddle's pass for operations in place
    does not know: it would let the other one write there.
    """
    for op in block.ops:
        if op.name() != "pd_op.einsum":
            continue
        combined = op.operand_source(0).get_defining_op()
        for operand in combined.operands():
            value = operand.source()
            given = value.get_defining_op().name() in ("pd_op.data", "builtin.parameter")
            if given or len(value.all_used_ops()) < 2:
                continue
            pir.set_insertion_point(combined)
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            operand.set_source(copy)
    pir.set_insertion_point_to_block_end(block)


# Larger constants are made by every run, as the program says.
_LARGEST_CONSTANT = 4096
_CONSTANTS = ("pd_op.full", "pd_op.full_int_array")
# Their results may share storage with what they are given, which operations in place do not know.
_HANDS_ON = ("pd_op.while", "pd_op.if", "cf.yield")


def _hoist_constants(block, kept, forward_end, start, place):
    """Makes inputs of the numbers that the program would write to memory in every run.

    The forward part ends at `forward_end`, the backward part starts at `start`. The answer is the new
    inputs, what makes each of them in eager mode, and how many operations the forward part has won.
    """
    values, recipes, removed = [], [], 0
    operations = block.ops
    # Constants have no operands: none of their uses is in front of this operation.
    anchor = next((op for op in operations if op.name() not in _CONSTANTS), None)
    if anchor is None or not place.is_cpu_place():
        return values, recipes, 0
    known = {}
    for index, op in enumerate(operations):
        name = op.name()
        if name not in _CONSTANTS:
            continue
        if forward_end <= index < start:
            continue
        value = op.results()[0]
        attributes = op.attrs()
        number = attributes["value"]
        whole = name == "pd_op.full_int_array"
        uses = [use.name() for use in value.all_used_ops()]
        if value.id in kept or not uses or any(use.endswith("_") or use in _HANDS_ON for use in uses):
            continue
        if not whole and (isinstance(number, complex) or math.prod(attributes["shape"]) > _LARGEST_CONSTANT):
            continue
        where = attributes["place"] if attributes["place"].is_cpu_place() else place
        # repr: 0.0 and -0.0 are equal.
        key = (whole, repr(number), tuple(value.shape), str(value.dtype), str(where))
        constant = known.get(key)
        if constant is None:
            recipes.append(
                (_C_ops.full_int_array, (number, value.dtype, where))
                if whole
                else (_C_ops.full, (attributes["shape"], number, value.dtype, where))
            )
            pir.set_insertion_point(anchor)
            constant = known[key] = _C_ops.data(f"sot_c{len(values)}", value.shape, value.dtype, where)
            constant.stop_gradient = True
            values.append(constant)
        value.replace_all_uses_with(constant)
        block.remove_op(op)
        removed += index < forward_end
    pir.set_insertion_point_to_block_end(block)
    return values, recipes, len(values) - removed


def _say_layout(block):
    """Before each run on a CPU Paddle goes through operations until one of them names a layout: so the first does."""
    operations = block.ops
    if not operations:
        return
    named = (op.attrs().get(name) for op in operations for name in _LAYOUTS if op.has_attr(name))
    if not any(operations[0].has_attr(name) for name in _LAYOUTS):
        operations[0].set_str_attr(_LAYOUTS[0], "NHWC" if next(named, None) == "NHWC" else "NCHW")
    for op in operations:
        for inner in blocks_of(op):
            _say_layout(inner)


def compile_graph(trace, inputs, outputs, grad, lowering=None, is_part=False):
    """The attribute map of `run_program`, the forward program, whether it trains, which inputs
    want a gradient but get none, gates around the program, what its runs need to go backward again (outputs that
    train, variables, whether it draws random numbers, inputs and outputs that its backward reads), whether it has
    loops, whether its last output says which inputs it has reached, and those inputs (see `Plan`), the bytes that it
    makes, and constants to pass after the inputs.

    `inputs` and `outputs` are Values; every input goes in as an `x` of the program. `lowering` rewrites the
    program on its way: see `_Lowering`. `is_part`: gradients arrive at all of its outputs, or at none.
    """
    place = framework._current_expected_place()
    if grad and trace.branches:
        # It tries how edges are cut, in eager mode, the first time that it is asked.
        reach.can_cut()
    answer, recipes = _compile(trace, inputs, outputs, grad, place, lowering or _Lowering(), is_part)
    with paddle.no_grad():
        constants = [make(*arguments) for make, arguments in recipes]
    return (*answer, constants)


class _Lowering:
    """What another backend may do to a program while it is compiled: here, nothing.

    A lowering replaces Values; `kept` are the ones the compilation goes on with, the answer is what they became.
    """

    rewrites = False

    def before_backward(self, program, kept, trains):
        return kept

    def backward(self, block, inputs, targets, seeds, branches):
        return gradients(block, inputs, targets, seeds, branches)

    def after_backward(self, program, kept, forward_end, start):
        """The answer is (kept, forward_end, start)."""
        return kept, forward_end, start

    def finish(self, forward, backward):
        """The two programs as they will run."""


def _draws(operations):
    return any(one.name() in RANDOM for op in operations for one in (op, *inner_operations(op)))


def loops(block):
    """Whether there is a loop in it, or in a block of it."""
    inner = (op for op in block.ops if op.name() in REGIONS)
    return any(op.name() == "pd_op.while" or any(map(loops, op.blocks())) for op in inner)


def _compile(trace, inputs, outputs, grad, place, lowering, is_part):
    global current
    around, current = current, trace
    program, block = trace.program, trace.block
    window = Window(program, trace.startup, trace.cast)
    try:
        if grad:
            _keep_operands(block)
        # A kernel may write its result into the storage it shares with another output or an input.
        produced = []
        for value in outputs:
            copies = grad or lowering.rewrites
            if not copies and value.use_empty() and value.get_defining_op().name() not in _SHARES_STORAGE:
                produced.append(value)
                continue
            copy = _C_ops.assign(value)
            copy.stop_gradient = value.stop_gradient
            produced.append(copy)
        trains = grad and any(not value.stop_gradient for value in produced)
        produced = lowering.before_backward(program, produced, trains)
        plan, never = reach.plan(trace, block.ops, inputs, produced) if trains else (None, [])
        trace.notes_ways = False
        if plan is not None:
            if not reach.can_cut():
                raise CallByCall
            produced = [*produced, plan.flags]
        pir.append_shadow_outputs(program, produced, len(block.ops), "output_")
        forward_end = len(block.ops)
        x_grads, out_grads, without, gates = [], [], [], None
        between = 0
        if trains:
            for value in produced:
                if value.stop_gradient:
                    out_grads.append(pir.fake_value())
                else:
                    out_grads.append(_C_ops.full_like(value, 1.0, value.dtype, core.Place()))
            pir.append_shadow_outputs(program, out_grads, len(block.ops), "grad_input_")
            between = len(block.ops) - forward_end
            last = block.ops[forward_end - 1]
            targets = [value for value in produced if not value.stop_gradient]
            seeds = [gradient for gradient, value in zip(out_grads, produced, strict=True) if not value.stop_gradient]
            x_grads = list(lowering.backward(block, inputs, targets, seeds, trace.branches))
            # The gradient of a branch has zeros for what its operators give no gradient to.
            for at in never:
                x_grads[at] = None
            for index, op in enumerate(block.ops):
                if op == last:
                    forward_end = index + 1
                    break
            without = [
                index
                for index, (gradient, value) in enumerate(zip(x_grads, inputs, strict=True))
                if gradient is None and not value.stop_gradient
            ]
            if plan is not None:
                gates = plan.gates
            elif not is_part:
                gates = gates_of(block.ops[:forward_end], inputs, produced)
            if gates is not None and again.is_expected():
                raise CallByCall
            start = forward_end + between
            live = [value for value in x_grads if value is not None]
            after, forward_end, start = lowering.after_backward(program, [*produced, *live], forward_end, start)
            produced, live = after[: len(produced)], iter(after[len(produced) :])
            x_grads = [pir.fake_value() if value is None else next(live) for value in x_grads]
            pir.append_shadow_outputs(program, x_grads, len(block.ops), "grad_output_")
        else:
            start = forward_end
        kept = {value.id for value in (*produced, *x_grads, *out_grads) if not is_fake_value(value)}
        constants, recipes, moved = _hoist_constants(block, kept, forward_end, start, place)
        forward_end, start = forward_end + moved, start + moved
        read = [], []
        if trains:
            read = read_back(block.ops, forward_end, start, inputs, produced[: len(outputs)])
        inputs = [*inputs, *constants]
        if trains:
            x_grads = [*x_grads, *(pir.fake_value() for _ in constants)]
        is_random = trains and _draws(block.ops[:forward_end])
        (forward, backward), attributes = pir.split_program(
            program, inputs, [], produced, x_grads, [], out_grads, (0, forward_end), (start, len(block.ops))
        )
        lowering.finish(forward, backward)
        for part in (forward, backward):
            _say_layout(part.global_block())
        by_name = {name: value for value in _all_values(forward) for name in value._names}
        names = {key: [_name(value) for value in values] for key, values in attributes.items()}
        mapping = _unify_names(backward, _unify_names(forward, {}))
        # A value that is also known under another name must keep its buffer.
        renamed = {name for pair in mapping.items() for name in pair}
        names["no_need_buffers"] = [name for name in names["no_need_buffers"] if name not in renamed]
        results = [by_name.get(name, pir.fake_value()) for name in names["fo"]]
        for value, original in zip(results, produced, strict=True):
            if not is_fake_value(value):
                value.stop_gradient = original.stop_gradient
        description = {
            "forward_program": forward,
            "backward_program": backward,
            "is_test": not trains,
            "program_id": _new_program_id(),
            "in_sot_mode": True,
            "fo_values": results,
        }
        for key, list_ in names.items():
            description[key + "_names"] = [mapping.get(name, name) for name in list_]
        attribute_map = core.construct_program_attribute_map(description)
        training, needed = [], []
        if trains:
            training = [at for at, value in enumerate(produced) if not value.stop_gradient]
            taken = (mapping.get(name, name) for key in ("bx", "bp", "bm", "bo") for name in names[key])
            needed = sorted({name for name in taken if name != get_fake_value_name()})
        # The backward part has loops where this one has.
        has_loops = loops(forward.global_block())
        if has_loops and trains:
            again.loops = True
        decided = None
        if plan is not None:
            decided = [row for row in plan.rows if row[0] not in without], plan.loose
        again_ = (training, needed, is_random, *read)
        executor = (has_loops, decided, _memory((forward, backward)))
        return (attribute_map, forward, trains, without, gates, again_, executor), recipes
    finally:
        current = around
        window.close()


CUDA_GRAPH = {"cuda_graph_state": CUDAGraphState.DISABLE, "cuda_graph_dispatch_key": 0}


def _put_zeros_first():
    """Paddle keeps one attribute for numbers that are equal, the first it meets: 0.0, before some program has -0.0."""
    trace = Trace()
    window = Window(trace.program, trace.startup, trace.cast)
    try:
        _C_ops.scale(_C_ops.full([1], 0.0, paddle.float32, core.Place()), 0.0, 0.0, True)
    finally:
        window.close()


_put_zeros_first()
