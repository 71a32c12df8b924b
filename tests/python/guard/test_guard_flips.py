"""Every case flips one thing between two calls: the translation must notice, and agree with plain Python.

A case is a generator. It first gives the function, then flips something before every further step.
"""

import abc
import collections
import dataclasses
import enum
import functools
import sys
import types
import weakref

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, _Picture, difference, translate
from paddle import nn

X = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3) - 1)
CASES = []
# What a CPU does not care about: nothing is translated again.
FREE = {"cast_mode"}


def case(function):
    CASES.append(pytest.param(function, id=function.__name__))
    return function


@pytest.mark.parametrize("steps", CASES)
def test_flip(steps):
    run = steps()
    function = next(run)
    translated = function if IDENTITY else sot.to_static(function, min_graph_size=0)

    def agree(when):
        for _ in range(2):
            outcomes = []
            for call in (function, translated):
                paddle.seed(3)
                try:
                    outcomes.append(("returned", call(X)))
                except Exception as error:  # noqa: BLE001 - the same one is expected
                    outcomes.append(("raised", type(error), str(error)))
            pictures = [_Picture().of(outcome) for outcome in outcomes]
            assert (found := difference(*pictures, close=False)) is None, f"{when}: {found}"

    agree("before")
    for number, _ in enumerate(run, 1):
        agree(f"after flip {number}")
    if not IDENTITY and steps.__name__ not in FREE:
        assert sot.stats(translated).translations > 1, sot.stats(translated)


def test_the_first_code_of_a_function_finds_its_translation_again():
    def function(x):
        return x + 1

    codes = [function.__code__, (lambda x: x - 1).__code__, (lambda x: x * 2).__code__]
    translated = sot.to_static(function, min_graph_size=0)
    for code in codes * 3:
        function.__code__ = code
        assert (translated(X) == function(X)).all()
    assert sot.stats(translated).translations == len(codes)
    # Those of the others go with the rest.
    sot.reset(translated)
    assert (translated(X) == function(X)).all()
    assert sot.stats(translated).translations == 1


def test_code_that_is_replaced_at_every_call_is_not_kept():
    def function(x):
        return x + 1

    translated = sot.to_static(function, min_graph_size=0)
    first = None
    for number in range(12):
        code = eval(f"lambda x: x * {number}").__code__
        gone = weakref.ref(code)
        function.__code__ = code
        assert (translated(X) == X * number).all()
        first = first or gone
    del code
    assert first() is None


# Functions.


@case
def code_of_a_callee():
    def inner(x):
        return x + 1

    yield lambda x: inner(x) * 2
    inner.__code__ = (lambda x: x - 1).__code__
    yield


@case
def code_of_the_function_itself():
    def function(x):
        return x + 1

    def other(x, by=2, *, more=3):
        return x * by - more

    first = function.__code__
    yield function
    function.__code__, function.__defaults__ = other.__code__, (5,)
    function.__kwdefaults__ = {"more": 7}
    yield
    function.__code__ = first
    function.__defaults__ = function.__kwdefaults__ = None
    yield


@case
def code_of_a_method_itself():
    class Owner:
        def scaled(self, x):
            return x * self.by

    owner = Owner()
    owner.by = 3
    yield owner.scaled
    Owner.scaled.__code__ = (lambda self, x: x - self.by).__code__
    yield


@case
def rebound_name_of_a_callee():
    def inner(x):
        return x + 1

    yield lambda x: inner(x) * 2

    def inner(x):  # noqa: F811
        return x - 5

    yield


@case
def default_that_is_replaced():
    def inner(x, by=1, *, more=2):
        return x * by + more

    yield lambda x: inner(x)
    inner.__defaults__ = (3,)
    yield
    inner.__kwdefaults__ = {"more": 7}
    yield
    inner.__kwdefaults__["more"] = 8
    yield
    inner.__defaults__ = None
    yield


@case
def default_that_is_mutated():
    def inner(x, by=[1], names={"a": 1}):  # noqa: B006 - that is the test
        return x * sum(by) + names["a"]

    yield lambda x: inner(x)
    inner.__defaults__[0].append(4)
    yield
    inner.__defaults__[0][0] = 9
    yield
    inner.__defaults__[1]["a"] = 5
    yield


@case
def default_of_the_function_itself():
    def f(x, by=1, *, more=1):
        return x * by + more

    yield f
    f.__defaults__ = (2,)
    yield
    f.__kwdefaults__ = {"more": 4}
    yield


@case
def cell_that_is_rebound():
    k, scale = 1, [2]

    def f(x):
        return x * k + scale[0]

    yield f
    k = 5
    yield
    scale = (7, 8)
    yield
    f.__closure__[0].cell_contents = 2.5
    yield


@case
def cell_that_becomes_empty():
    k = 1

    def f(x):
        return x * k

    yield f
    del k
    yield
    k = 2
    yield


@case
def function_of_a_cell():
    act = paddle.nn.functional.relu
    yield lambda x: act(x) + 1
    act = paddle.nn.functional.sigmoid
    yield
    act = lambda x: x * 3  # noqa: E731
    yield


@case
def attribute_of_a_function():
    def inner(x):
        return x * inner.scale

    inner.scale = 2
    yield lambda x: inner(x)
    inner.scale = 3
    yield
    del inner.scale
    yield


@case
def argument_of_a_partial():
    inner = functools.partial(lambda x, by: x * by, by=2)
    yield lambda x: inner(x)
    inner.keywords["by"] = 3
    yield


# Globals, modules, builtins.


MODULE = types.ModuleType("flipped_module")
MODULE.scale = 2
MODULE.apply = lambda x: x * 2
NUMBER = 1
TENSOR = X + 1
TENSORS = [X + 1, X + 2]


@case
def global_of_every_kind():
    global NUMBER, TENSOR
    NUMBER, TENSOR = 1, X + 1
    yield lambda x: x * NUMBER + TENSOR
    NUMBER = 1.0
    yield
    NUMBER = True
    yield
    TENSOR = TENSOR * 2
    yield
    TENSOR = TENSOR.astype("float64")
    yield
    NUMBER = paddle.ones([3])
    yield


@case
def tensors_of_a_global_list():
    TENSORS[:] = [X + 1, X + 2]
    yield lambda x: x + TENSORS[0] * TENSORS[-1]
    TENSORS[0] = X * 7
    yield
    TENSORS.append(X)
    yield
    TENSORS.reverse()
    yield
    TENSORS[0] = TENSORS[1]
    yield


@case
def attribute_of_a_module():
    MODULE.scale, MODULE.apply = 2, lambda x: x * 2
    yield lambda x: MODULE.apply(x) * MODULE.scale
    MODULE.scale = 3
    yield
    MODULE.apply = lambda x: x - 1
    yield


@case
def patched_function_of_paddle():
    original = paddle.nn.functional.relu
    yield lambda x: paddle.nn.functional.relu(x) + 1
    paddle.nn.functional.relu = lambda x: x * 10
    try:
        yield
    finally:
        paddle.nn.functional.relu = original
    yield


@case
def patched_method_of_a_tensor():
    original = paddle.Tensor.tanh
    yield lambda x: x.tanh() + 1
    paddle.Tensor.tanh = lambda self: self * 10
    try:
        yield
    finally:
        paddle.Tensor.tanh = original
    yield


@case
def patched_operator_of_a_tensor():
    original = paddle.Tensor.__matmul__
    yield lambda x: x @ x.T
    paddle.Tensor.__matmul__ = lambda self, other: self * 10
    try:
        yield
    finally:
        paddle.Tensor.__matmul__ = original
    yield


@case
def builtin_that_is_shadowed():
    names = {"__builtins__": __builtins__}
    exec("def f(x):\n    return x * len([1, 2])", names)
    yield names["f"]
    names["len"] = lambda over: 7
    yield
    del names["len"]
    yield


@case
def module_that_is_imported_inside():
    sys.modules["flipped_module"] = MODULE
    MODULE.scale = 2

    def f(x):
        import flipped_module
        from flipped_module import scale

        return x * scale + flipped_module.scale

    yield f
    MODULE.scale = 5
    yield
    other = types.ModuleType("flipped_module")
    other.scale = 9
    sys.modules["flipped_module"] = other
    yield
    del sys.modules["flipped_module"]
    yield


# Classes and instances.


class Base:
    scale = 2

    def apply(self, x):
        return x * self.scale

    @property
    def shift(self):
        return 1

    @staticmethod
    def fixed(x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x * cls.scale


class Child(Base):
    def apply(self, x):
        return super().apply(x) + 1


def fresh_classes():
    base = type("Base", (Base,), dict(Base.__dict__))
    return base, type("Child", (base,), {})


@case
def class_attribute():
    base, child = fresh_classes()
    thing = child()
    yield lambda x: thing.apply(x) + thing.scale
    base.scale = 3
    yield
    child.scale = 4
    yield
    thing.scale = 5
    yield
    del thing.scale
    yield
    del child.scale
    yield


@case
def method_that_is_monkeypatched():
    base, child = fresh_classes()
    thing = child()
    yield lambda x: thing.apply(x) + thing.shift
    base.apply = lambda self, x: x - 1
    yield
    child.apply = lambda self, x: x - 2
    yield
    thing.apply = lambda x: x - 3
    yield
    base.shift = property(lambda self: 10)
    yield
    base.shift = 11
    yield


@case
def method_behind_super():
    original = Base.apply
    thing = Child()
    yield lambda x: thing.apply(x)
    Base.apply = lambda self, x: x - 7
    try:
        yield
    finally:
        Base.apply = original
    yield


@case
def static_and_class_methods():
    base, child = fresh_classes()
    yield lambda x: child.fixed(x) + child.of_class(x)
    base.fixed = staticmethod(lambda x: x - 1)
    yield
    base.of_class = classmethod(lambda cls, x: x * 10)
    yield
    child.scale = 8
    yield


@case
def class_of_an_instance():
    base, child = fresh_classes()
    child.apply = lambda self, x: x - 3
    thing = child()
    yield lambda x: thing.apply(x)
    thing.__class__ = base
    yield


@case
def bases_of_a_class():
    base, child = fresh_classes()
    other = type("Other", (base,), {"apply": lambda self, x: x * 100})
    thing = child()
    yield lambda x: thing.apply(x)
    child.__bases__ = (other,)
    yield


@case
def attribute_that_comes_and_goes():
    thing = types.SimpleNamespace(a=1)

    def f(x):
        if hasattr(thing, "b"):
            return x * thing.b
        return x * thing.a + getattr(thing, "c", 0)

    yield f
    thing.b = 3
    yield
    del thing.b
    yield
    thing.c = 5
    yield


@case
def getattr_of_a_class():
    class Thing:
        def __getattr__(self, name):
            return len(name)

    thing = Thing()
    yield lambda x: x * thing.abc
    Thing.__getattr__ = lambda self, name: 10
    yield
    thing.abc = 7
    yield


@case
def operator_of_a_class():
    class Thing:
        def __add__(self, other):
            return other + 1

        def __len__(self):
            return 2

    thing = Thing()
    yield lambda x: (thing + x) * len(thing)
    Thing.__add__ = lambda self, other: other * 3
    yield
    Thing.__len__ = lambda self: 5
    yield


@case
def truth_of_an_object():
    class Thing:
        pass

    thing = Thing()
    yield lambda x: x + 1 if thing else x - 1
    Thing.__len__ = lambda self: 0
    yield
    Thing.__bool__ = lambda self: True
    yield


@case
def slot_of_an_object():
    class Thing:
        __slots__ = ("k",)

    thing = Thing()
    thing.k = 2
    yield lambda x: x * thing.k
    thing.k = 3
    yield
    del thing.k
    yield


@case
def field_of_a_dataclass():
    @dataclasses.dataclass
    class Settings:
        scale: float = 2.0
        names: list = dataclasses.field(default_factory=list)

    settings = Settings()
    yield lambda x: x * settings.scale + len(settings.names)
    settings.scale = 3.0
    yield
    settings.names.append("a")
    yield


@case
def member_of_an_enum():
    class Mode(enum.Enum):
        A = 1
        B = 2

    mode = [Mode.A]
    yield lambda x: x * 2 if mode[0] is Mode.A else x * mode[0].value * 5
    mode[0] = Mode.B
    yield


@case
def abstract_class_with_a_late_member():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    thing = Square()
    yield lambda x: x * 2 if isinstance(thing, Shape) else x * 3
    Shape.register(Square)
    yield


# Containers.


@case
def values_and_length_of_a_list():
    numbers = [1, 2]
    yield lambda x: x * sum(numbers) + len(numbers)
    numbers.append(3)
    yield
    numbers[0] = 9
    yield
    numbers.pop()
    yield
    numbers[0] = 9.0
    yield


@case
def order_of_a_dict():
    table = {"a": 1, "b": 2}

    def f(x):
        for value in table.values():
            x = x * 2 + value
        return x, list(table)

    yield f
    table["a"] = table.pop("a")
    yield
    table["c"] = 3
    yield
    del table["b"]
    yield
    table["a"] = 1.5
    yield


@case
def order_of_an_ordered_dict():
    table = collections.OrderedDict(a=1, b=2)

    def f(x):
        for value in table.values():
            x = x * 2 + value
        return x

    yield f
    table.move_to_end("a")
    yield
    table.move_to_end("a", last=False)
    yield


@case
def key_that_is_missing():
    table = {"a": 1}
    yield lambda x: x * table.get("b", 10) if "b" not in table else x + table["b"]
    table["b"] = 2
    yield
    del table["b"]
    yield


@case
def members_of_a_set():
    names = {"a"}
    yield lambda x: x * 2 if "b" in names else x * 3 + len(names)
    names.add("b")
    yield
    names.discard("a")
    yield


@case
def container_that_changes_its_type():
    box = [[1, 2]]
    yield lambda x: x * box[0][1] + len(box[0]) + isinstance(box[0], tuple)
    box[0] = (1, 2)
    yield
    box[0] = {1: 2}
    yield
    box[0] = np.array([1, 2])
    yield


@case
def aliases_among_containers():
    a, b = [1], [1]
    pair = [a, b]

    def f(x):
        pair[0].append(5)
        result = x * len(pair[1])
        pair[0].pop()
        return result

    yield f
    pair[1] = a
    yield
    pair[1] = b
    yield


@case
def argument_that_is_a_global_too():
    global TENSOR
    TENSOR = X + 0

    def f(x):
        y = x.clone()
        return (x is TENSOR), y + TENSOR

    yield f
    TENSOR = X
    yield
    TENSOR = X + 0
    yield


@case
def tensors_that_become_one():
    pair = [X + 1, X + 1]
    yield lambda x: (pair[0] is pair[1], x + pair[0] * pair[1])
    pair[1] = pair[0]
    yield


# Layers.


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.parts = nn.LayerList([nn.Linear(3, 3)])
        self.register_buffer("shift", paddle.ones([3]))

    def forward(self, x):
        x = self.body(x)
        for part in self.parts:
            x = part(x)
        return x + self.shift


def layer_case(flip):
    """A case that changes a network, written as a generator over the network."""

    @functools.wraps(flip)
    def steps():
        paddle.seed(1)
        net = Net()
        yield lambda x: net(x)
        yield from flip(net)

    return case(steps)


@layer_case
def hooks_added_and_removed_later(net):
    before = net.body[0].register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2,))
    yield
    after = net.body.register_forward_post_hook(lambda layer, inputs, output: output + 1)
    yield
    own = net.register_forward_post_hook(lambda layer, inputs, output: output * 3)
    yield
    first = net.body[0].register_forward_pre_hook(lambda layer, inputs: (inputs[0] - 5,), prepend=True)
    yield
    for handle in (before, after, own, first):
        handle.remove()
        yield


@layer_case
def parameters_that_are_replaced(net):
    net.body[0].weight.set_value(paddle.ones([3, 3]))
    yield
    net.body[0].bias = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(4.0))
    yield
    net.parts[0].bias = None
    yield
    net.parts[0].weight = net.body[0].weight
    yield
    net.to(dtype="float64")
    yield


@layer_case
def buffers_that_are_replaced(net):
    net.shift = paddle.full([3], 2.0)
    yield
    net.register_buffer("shift", paddle.full([1], 3.0))
    yield
    net.shift = None
    yield


@layer_case
def layers_that_are_added(net):
    net.parts.append(nn.Linear(3, 3))
    yield
    net.parts[0] = nn.Tanh()
    yield
    net.body.add_sublayer("2", nn.Sigmoid())
    yield
    del net.body[1]
    yield


@layer_case
def forward_that_is_replaced(net):
    net.body[1].forward = lambda x: x * 2
    yield
    net.forward = lambda x: x - 1
    yield
    del net.forward
    yield


@case
def forward_of_a_class():
    class Scale(nn.Layer):
        def forward(self, x):
            return x * 2

    net = nn.Sequential(Scale())
    yield lambda x: net(x)
    Scale.forward = lambda self, x: x * 3
    yield
    Scale.__call__ = lambda self, x: x * 4
    yield


@layer_case
def modes_of_parts(net):
    net.parts.append(nn.Dropout(0.5))
    yield
    net.parts[1].eval()
    yield
    net.train()
    yield
    net.parts[1].p = 0.9
    yield
    net.eval()
    yield


@layer_case
def gradient_that_is_stopped(net):
    for parameter in net.parameters():
        parameter.stop_gradient = True
    yield
    net.parts[0].weight.stop_gradient = False
    yield


# The state of the process.


@case
def grad_mode():
    weight = paddle.ones([3])
    weight.stop_gradient = False
    yield lambda x: x * weight
    with paddle.no_grad():
        yield
    yield
    weight.stop_gradient = True
    yield


@case
def forward_of_a_class_of_paddle():
    net = nn.Sequential(nn.Linear(3, 3), nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0))
    yield lambda x: net(x.unsqueeze(0))
    for class_ in (nn.Linear, nn.MultiHeadAttention):
        original = class_.forward
        class_.forward = lambda self, x, *rest, original=original: original(self, x, *rest) * 2
        try:
            yield
        finally:
            class_.forward = original
        yield


@case
def default_dtype():
    yield lambda x: paddle.zeros([3]) + paddle.full([1], 2.0)
    paddle.set_default_dtype("float64")
    try:
        yield
    finally:
        paddle.set_default_dtype("float32")
    yield


@case
def cast_mode():
    yield lambda x: paddle.matmul(x, x.T) + 1
    with paddle.amp.auto_cast(dtype="bfloat16"):
        yield
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        yield
    yield


@case
def fields_of_a_tensor_that_is_not_an_argument():
    box = [X]
    yield lambda x: (box[0] * 2, box[0].shape, len(box[0]), box[0].stop_gradient)
    box[0] = X.reshape([3, 2])
    yield
    box[0] = X.flatten()
    yield
    box[0] = X.astype("int64")
    yield
    box[0] = X.clone()
    box[0].stop_gradient = False
    yield
    box[0] = paddle.create_parameter([2, 3], "float32", default_initializer=nn.initializer.Constant(4.0))
    yield


@case
def order_of_layers_read_by_index_first():
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def function(x):
        y = net[0](x)
        for layer in net:
            y = layer(y)
        return y

    yield function
    # `move_to_end` leaves the version of the dictionary as it is.
    net._sub_layers.move_to_end("0")
    yield
    net._sub_layers["1"] = net._sub_layers.pop("1")
    yield
    net._sub_layers.move_to_end("0", last=False)
    yield


@case
def order_of_layers_inside_of_a_layer_of_paddle():
    layers = [nn.TransformerEncoderLayer(4, 1, 8, dropout=0.0) for _ in range(2)]
    net = nn.TransformerEncoder(layers[0], 1)
    net.layers = nn.LayerList(layers)
    net.num_layers = 2
    net.eval()
    yield lambda x: net(paddle.concat([x, x], axis=1)[:, :4].unsqueeze(0))
    registry = net.layers._sub_layers
    registry.move_to_end("0")
    yield
    registry["1"] = registry.pop("1")
    yield


@case
def order_of_hooks():
    net = nn.Linear(3, 3)
    first = net.register_forward_post_hook(lambda layer, inputs, output: output + 1)
    net.register_forward_post_hook(lambda layer, inputs, output: output * 2)
    yield lambda x: net(x)
    net._forward_post_hooks.move_to_end(first._hook_id)
    yield


@case
def order_of_an_ordered_dictionary_below_an_argument():
    box = types.SimpleNamespace(rates=collections.OrderedDict(a=1.0, b=2.0))

    def function(x, box=box):
        x = x * box.rates["a"]
        for name in box.rates:
            x = x * 2 + box.rates[name]
        return x

    yield function
    box.rates.move_to_end("a")
    yield
    box.rates["b"] = box.rates.pop("b")
    yield


def _makers():
    class Plain:
        pass

    yield object
    yield lambda: lambda: 0
    yield lambda: iter([])
    yield lambda: type("Made", (), {})
    yield Plain
    yield lambda: ValueError(1)
    yield nn.ReLU
    yield lambda: (i for i in ())
    yield property
    yield lambda: frozenset([object()])
    yield lambda: {1}


COMPARISONS = [
    lambda x, y: x is y, lambda x, y: x is not y, lambda x, y: x == y, lambda x, y: x in [y],
    lambda x, y: (0, x) in [(0, y)],
    lambda x, y: (x, 1) == (y, 1), lambda x, y: [0, x, y].index(y), lambda x, y: len([1 for z in (x, y) if z is x]),
]  # fmt: skip


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("make", _makers())
def test_objects_that_were_two_may_be_one(compare, make):
    a, b = make(), make()
    for order in ([(a, b), (a, a), (b, b), (b, a)], [(a, a), (a, b), (b, b), (b, a)]):
        translated = translate(lambda x, y, t: (compare(x, y), t * 2))
        for x, y in order:
            assert translated(x, y, X)[0] == compare(x, y)


def test_a_generator_of_objects_that_one_is_looked_for_in():
    def leaves(tree, path):
        path.append(len(tree) if isinstance(tree, list) else 0)
        if isinstance(tree, list):
            for part in tree:
                yield from leaves(part, path)
        else:
            yield tree, path
        path.pop()

    def find(leaf, tree, x):
        for found, path in leaves(tree, []):
            print(end="")
            if found is leaf:
                return len(path), x + 1
        return "nowhere", x

    a, b, c = object(), object(), ValueError()
    translated = translate(find)
    for leaf in (a, b, c, object(), a, c, b):
        assert translated(leaf, [[a, b], c], X)[0] == find(leaf, [[a, b], c], X)[0]


@case
def a_class_gets_a_fallback_for_attributes():
    class Plain:
        pass

    plain = Plain()
    yield lambda x: (getattr(plain, "late", None), hasattr(plain, "later"), x + 1)
    Plain.__getattr__ = lambda self, name: name * 2
    yield
    del Plain.__getattr__
    yield


@case
def a_class_pattern_meets_a_fallback_for_attributes():
    class Plain:
        pass

    plain = Plain()

    def find(x):
        match plain:
            case Plain(late=late):
                return late, x
        return None, x + 1

    yield find
    Plain.__getattr__ = lambda self, name: name * 2
    yield


@case
def a_class_gets_a_lookup_of_its_own():
    class Plain:
        value = 3

    plain = Plain()
    yield lambda x: x * plain.value
    Plain.__getattribute__ = lambda self, name: 4
    yield
    del Plain.__getattribute__
    yield


@case
def a_class_between_gets_the_method_that_super_found():
    class Base:
        def scale(self, x):
            return x * 2

    class Between(Base):
        pass

    class Last(Between):
        def scale(self, x):
            return super().scale(x) + 1

    last = Last()
    yield lambda x: last.scale(x)
    Between.scale = lambda self, x: x * 3
    yield
    del Between.scale
    yield


def test_the_class_of_a_weak_proxy():
    class Plain:
        pass

    plain = Plain()
    proxy = weakref.proxy(plain)
    for function in (
        lambda p, x: (p.__class__, x + 1),
        lambda p, x: (isinstance(p, Plain), x),
        lambda p, x: (type(p), x),
    ):
        translated = translate(function)
        for one in (proxy, plain, proxy):
            assert translated(one, X)[0] == function(one, X)[0]


class Gear(enum.Enum):
    """Its members have attributes that change, methods and computed properties."""

    LOW = (1, 2)
    HIGH = (3, 4)

    def __init__(self, gain, bias):
        self.gain = gain
        self.bias = bias

    @property
    def total(self):
        SEEN.append(self.name)
        return self.gain + self.bias + len(SEEN)

    def apply(self, x):
        return x * self.gain if self is Gear.HIGH else x + self.bias

    @classmethod
    def pick(cls, high):
        return cls.HIGH if high else cls.LOW


class Named(enum.StrEnum):
    A = "a"

    def upper(self):
        SEEN.append("upper")
        return "own"


class Loud(enum.IntEnum):
    A = 1

    def __add__(self, other):
        SEEN.append("add")
        return int(self) * 10 + other

    def __bool__(self):
        SEEN.append("bool")
        return False


SEEN: list = []


class Once:
    """A descriptor that gives something else each time it is read through the class."""

    def __get__(self, instance, owner):
        SEEN.append("get")
        return len(SEEN)


class WithOnce:
    value = Once()


class Hashed:
    def __hash__(self):
        SEEN.append("hash")
        return 5

    def __eq__(self, other):
        return self is other


HASHED = {Hashed(): 1, 2: 3}
ORDERED = collections.OrderedDict(HASHED)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * Gear.HIGH.gain, Gear.HIGH.apply(x), Gear.pick(False).apply(x), Gear.LOW.value[1]),
        lambda x: x * Gear.HIGH.total + Gear.LOW.total,
        lambda x: (x + 1, Named.A.upper(), Named.A.lower(), Named.A == "a"),
        lambda x: (x * (Loud.A + 1), 1 if Loud.A else 2),
        lambda x: x * WithOnce.value + WithOnce.value,
        lambda x: (x + 1, HASHED.get(2), ORDERED.get(2)),
    ],
)
def test_python_behind_constants_and_keys_runs_as_often_as_in_plain_python(function):
    translated = translate(function)

    def agree():
        found = []
        for call in (function, translated):
            SEEN.clear()
            found.append([_Picture().of([call(X), list(SEEN)]) for _ in range(3)])
        assert difference(*found, close=False) is None

    agree()
    Gear.HIGH.gain = 7
    try:
        agree()
    finally:
        Gear.HIGH.gain = 3
