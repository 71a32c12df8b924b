"""Calls that are alike: what the first one appended to a program is copied for the others.

Paddle spends some 50 us on appending an operation, beside what its Python code around that takes; a copy takes 3. Two
calls are alike where the same code gets the same plain arguments, and tensors that differ in their numbers alone. Of
Paddle's layers the attributes are compared, as their code reads nothing else.
"""

import types
from collections import OrderedDict

import paddle
from paddle.base import core
from paddle.base.libpaddle import pir
from paddle.nn import Layer

from paddle_sot_rs._paddle.copied_operations import all_copied, copied
from paddle_sot_rs._paddle.static_mode import Window
from paddle_sot_rs._paddle.strides import layout
from paddle_sot_rs._paddle.value_patches import Value, raw_dims

# Attributes of every layer that say nothing about what its `forward` does.
_OF_NO_MEANING = frozenset(
    (
        *("_customized_attrs", "_full_name", "_helper", "_init_in_dynamic_mode", "_loaddict_holder"),
        *("_non_persistable_buffer_names_set", "_op_recorder", "_original_funcs", "_state_dict_hooks"),
    )
)
_is_dense, _is_dist = paddle.Tensor.is_dense, paddle.Tensor.is_dist
_PLAIN = frozenset((type(None), bool, int, str, bytes))
_DTYPE = type(paddle.float32)
_CONTAINERS = (tuple, list)
# Paddle reads the numbers of these, as sizes.
_MAYBE_SIZES = (paddle.int32.value, paddle.int64.value)
# What reads more of a tensor than its metadata looks at how it was made: as one of these.
_LOOKED_INTO = frozenset(
    ("builtin.combine", "pd_op.full", "pd_op.full_int_array", "pd_op.assign_value", "pd_op.assign_value_")
)


class _Other(Exception):
    """Nobody knows whether this is alike."""


class Signature:
    """What makes calls alike, and what may differ: the values that are given, the tensors of the layer."""

    __slots__ = ("attributes", "external", "key", "layers", "places", "tensors", "values", "watched")

    def __init__(self, function, args, kwargs, is_layer, grad, external):
        self.values, self.tensors, self.places, self.layers = [], [], {}, {}
        self.external = external
        # The attributes of each layer.
        self.attributes = []
        parts = [is_layer, grad, paddle.get_default_dtype()]
        if is_layer:
            self._layer(function.__self__, parts)
        else:
            parts.append(function)
        self._item(args, parts)
        self._item(kwargs, parts)
        self.key = tuple(parts)

    def watch(self):
        """Keeps what the attributes of layers are before the call."""
        self.watched = [{name: _held(item) for name, item in of.items()} for of in self.attributes]

    def written(self):
        """The attributes of layers that the call has written: the layer's number, name and value."""
        found = []
        for at, (attributes, before) in enumerate(zip(self.attributes, self.watched, strict=True)):
            if attributes.keys() != before.keys():
                raise _Other
            for name, item in attributes.items():
                old, holds = before[name]
                if item is not old:
                    if type(item) not in _PLAIN:
                        raise _Other
                    found.append((at, name, item))
                elif holds != _held(item)[1]:
                    raise _Other
        return found

    def _item(self, item, parts):
        kind = type(item)
        if kind in _PLAIN:
            parts += (kind, item)
        elif kind is _DTYPE:
            parts += (kind, item.value)
        elif kind is float:
            # Zeros have signs.
            parts += (kind, item.hex())
        elif isinstance(item, Value):
            self._value(item, parts)
        elif kind in _CONTAINERS:
            parts += (kind, len(item))
            for part in item:
                self._item(part, parts)
        elif isinstance(item, dict):
            parts += (kind, len(item))
            for name, part in item.items():
                self._item(name, parts)
                self._item(part, parts)
        elif kind is slice:
            self._item((item.start, item.stop, item.step), parts)
        elif isinstance(item, paddle.Tensor):
            self._tensor(item, parts)
        elif isinstance(item, Layer):
            self._layer(item, parts)
        elif isinstance(item, type) or _is_of_paddle(item):
            parts += (kind, item)
        else:
            raise _Other

    def _value(self, value, parts):
        name = value.id
        known = self.places.get(name)
        if known is not None:
            parts.append(known)
            return
        if not value.initialized() or not value.is_dense_tensor_type():
            raise _Other
        shape, dtype = tuple(raw_dims(value)), value.dtype.value
        if min(shape, default=0) < 0 or dtype in _MAYBE_SIZES and len(shape) < 2:
            raise _Other
        maker = value.get_defining_op()
        if maker is None or maker.name() in _LOOKED_INTO:
            raise _Other
        self.places[name] = "value", len(self.values)
        self.values.append(value)
        # What is made a view of it depends on how it lies in its storage.
        parts += (Value, shape, dtype, value.stop_gradient, layout(value))

    def _tensor(self, tensor, parts):
        known = self.places.get(id(tensor))
        if known is not None:
            parts.append(known)
            return
        if not _is_dense(tensor) or _is_dist(tensor):
            raise _Other
        self.places[id(tensor)] = "tensor", len(self.tensors)
        self.tensors.append(tensor)
        # The function may have set the flag: the tensor itself gets it in front of the graph.
        known = self.external.get(id(tensor))
        stops = (tensor if known is None else known[1]).stop_gradient
        parts += (type(tensor), tuple(tensor.shape), tensor.dtype.value, stops)

    def _layer(self, layer, parts):
        known = self.layers.get(id(layer))
        if known is not None:
            parts += (Layer, known)
            return
        self.layers[id(layer)] = len(self.layers)
        attributes = vars(layer)
        self.attributes.append(attributes)
        parts.append(type(layer))
        for name, item in attributes.items():
            kind = type(item)
            if name in _OF_NO_MEANING or kind is paddle.ParamAttr:
                continue
            if kind in _PLAIN:
                parts += (name, kind, item)
            elif kind is OrderedDict and not item:
                parts += (name, kind, 0)
            else:
                parts.append(name)
                self._item(item, parts)


def _held(item):
    """An object, and the addresses of what it holds if it is a container."""
    if isinstance(item, dict):
        return item, [*map(id, item), *map(id, item.values())]
    return item, [*map(id, item)] if isinstance(item, (list, set)) else ()


class AlikeCalls:
    """The calls of one program of which there may be more."""

    def __init__(self, trace):
        self.trace = trace
        self.known = {}
        # By the number of an operation that has copies, or is one, that of the original.
        self.models = {}

    def signature(self, function, args, kwargs, is_layer, grad):
        """What a call has in common with others; None where only making it says what it does."""
        if self.trace.inspect is not None or not (is_layer or type(function) is str or _is_of_paddle(function)):
            return None
        try:
            found = Signature(function, args, kwargs, is_layer, grad, self.trace.external)
        except _Other:
            return None
        external = (self.trace.external.get(id(tensor)) for tensor in found.tensors)
        # The same value in two places: another call may have two values there.
        if any(known is not None and known[1].id in found.places for known in external):
            return None
        return found

    def find(self, signature):
        """The call that this one is alike, None where it is the first."""
        if signature is None:
            return None
        found = self.known.get(signature.key)
        if found is None:
            signature.watch()
        return found

    def note(self, signature, operations, end, result):
        """Keeps a call that was just made, where all that it reads and answers has a place in its signature."""
        if signature is None or signature.key in self.known:
            return
        trace = self.trace
        if trace.asked or trace.computes or trace.asks or len(self.known) >= _MOST:
            return
        try:
            self.known[signature.key] = Recorded(trace, signature, operations, end, result)
        except _Other:
            pass

    def forget(self, size):
        """Operations behind the first `size` are gone."""
        self.known = {key: call for key, call in self.known.items() if call.end <= size}


# Calls that are kept; each holds its operations.
_MOST = 1024


def _is_of_paddle(function):
    """Whether it is a function of Paddle's, of which all calls do the same."""
    if type(function) is not types.FunctionType:
        return False
    module = function.__module__
    return type(module) is str and module.startswith("paddle.")


class Recorded:
    """One call: its operations, where what they take comes from, what it answered, and wrote to its layers."""

    __slots__ = ("copies", "draws", "end", "inputs", "met", "operations", "result", "updated", "written")

    def __init__(self, trace, signature, operations, end, result):
        if any(op.num_regions() or not op.num_results() for op in operations):
            raise _Other
        places, self.written = signature.places, signature.written()
        try:
            self.met = [places[name][1] for name in trace.met]
        except KeyError:
            raise _Other from None
        of_tensors = {}
        for name in trace.met:
            of_tensors[trace.external[name][1].id] = places[name]
        fresh = {trace.external[id(tensor)][1].id for tensor in trace.fresh}
        self.operations = [op for op in operations if op.result(0).id not in fresh] if fresh else operations
        made, inputs = set(), {}
        for op in self.operations:
            for value in op.operands_source():
                name = value.id if value.initialized() else None
                if name is None or name in made or name in inputs:
                    continue
                place = places.get(name) or of_tensors.get(name)
                if place is None:
                    raise _Other
                inputs[name] = (value, *place)
            made.update(value.id for value in op.results())
        self.inputs = list(inputs.values())
        try:
            self.updated = [inputs[name][1:] for name in trace.updated]
        except KeyError:
            raise _Other from None
        results = {value.id: (at, of) for at, op in enumerate(self.operations) for of, value in enumerate(op.results())}
        self.result = _outline(result, signature.places, results)
        self.copies, self.draws, self.end = trace.copies, trace.draws, end

    def again(self, trace, signature):
        """Appends copies of the operations; the answer is the copies and what the call answers."""
        values = {"value": signature.values, "tensor": {at: trace.cast(signature.tensors[at]) for at in self.met}}
        copies = all_copied(self.operations, ((old, values[kind][at]) for old, kind, at in self.inputs))
        models = trace.alike.models
        for op, copy in zip(self.operations, copies, strict=True):
            models[copy.id()] = models[op.id()] = op.id()
        for at, name, item in self.written:
            signature.attributes[at][name] = item
        trace.copies, trace.draws = self.copies, self.draws
        trace.updated = [values[kind][at].id for kind, at in self.updated]
        return copies, _filled(self.result, signature.values, copies)


class _Made:
    """A result of one of the operations."""

    __slots__ = ("at", "of")

    def __init__(self, at, of):
        self.at, self.of = at, of


class _Given:
    """What was given."""

    __slots__ = ("at",)

    def __init__(self, at):
        self.at = at


def _outline(result, places, results):
    """A result with such places instead of values."""
    if isinstance(result, Value):
        made, given = results.get(result.id), places.get(result.id)
        if made is not None:
            return _Made(*made)
        if given is not None:
            return _Given(given[1])
        raise _Other
    if type(result) in _CONTAINERS:
        return type(result)(_outline(item, places, results) for item in result)
    if result is None or type(result) in (bool, int, float, str):
        return result
    raise _Other


def _filled(outline, values, operations):
    kind = type(outline)
    if kind is _Made:
        return operations[outline.at].result(outline.of)
    if kind is _Given:
        return values[outline.at]
    if kind in _CONTAINERS:
        return kind(_filled(item, values, operations) for item in outline)
    return outline


class _Inputs:
    """Inputs of programs by shape and dtype, one each, to be copied."""

    def __init__(self):
        self.program = paddle.static.Program()
        self.startup = paddle.static.Program()
        self.known = {}

    def made(self, name, shape, dtype):
        """A new input, where operations are appended now."""
        key = tuple(shape), dtype.value
        op = self.known.get(key)
        if op is None:
            if len(self.known) >= _MOST:
                self.__init__()
            window = Window(self.program, self.startup, lambda value: value)
            try:
                op = paddle._C_ops.data("sot_x", shape, dtype, core.Place()).get_defining_op()
            finally:
                window.close()
            self.known[key] = op
        copy = copied(op, pir.IrMapping())
        copy.set_str_attr("name", name)
        return copy.result(0)


INPUTS = _Inputs()
