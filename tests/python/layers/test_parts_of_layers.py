"""A layer whose parts, hooks or dictionaries the function itself changes: what follows sees the change."""

import paddle
import pytest
from harness import Programs, _Picture, check, difference, tensor, translate
from paddle import nn

program = Programs()
X = tensor(1, 2)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("scale", paddle.ones([2]) * 3)
        self.steps = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.parts = nn.LayerList([nn.Linear(2, 2)])
        self.rates = nn.ParameterList([self.create_parameter([1])])

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


paddle.seed(4)
NET, NEW = Net(), nn.Linear(2, 2)
WEIGHT, RATE = NEW.create_parameter([2, 2]), NEW.create_parameter([1])
DICTIONARIES = [
    (dictionary, dict(dictionary))
    for layer in NET.sublayers(include_self=True)
    for dictionary in vars(layer).values()
    if isinstance(dictionary, dict)
]
SUB_LAYERS = NET._sub_layers


def reset():
    NET.__dict__["_sub_layers"] = SUB_LAYERS
    for dictionary, items in DICTIONARIES:
        dictionary.clear()
        dictionary.update(items)


def names():
    return sorted(NET.state_dict()), [name for name, _ in NET.named_sublayers()]


def doubled(layer, inputs, output):
    return output * 2


@program(X, graphs=1, breaks=1)
def a_new_part(x):
    NET.add_sublayer("late", NEW)
    return NET.late(x)


@program(X, graphs=1, breaks=1)
def another_part(x):
    NET.add_sublayer("first", NEW)
    return NET.first(x), NET(x)


@program(X, graphs=1, breaks=1)
def another_part_in_the_dictionary(x):
    NET._sub_layers["first"] = NEW
    return NET(x)


@program(X, graphs=1, breaks=1)
def dictionaries_that_are_updated(x):
    parts = NET._sub_layers
    parts.update(first=NEW)
    return NET(x)


@program(X, graphs=1, breaks=1)
def another_dictionary(x):
    NET._sub_layers = {**NET._sub_layers, "first": NEW}
    return NET(x)


@program(X, graphs=1, breaks=0)
def a_part_of_a_sequence_that_is_called(x):
    NET.steps.add_sublayer("0", NEW)
    return NET.steps(x)


@program(X, graphs=1, breaks=1)
def a_part_of_a_sequence_by_its_place(x):
    NET.steps.add_sublayer("0", NEW)
    return NET.steps[0](x), len(NET.steps), NET.steps[-1](x)


@program(X, graphs=2, breaks=4)
def a_list_that_grows_and_is_iterated(x):
    NET.parts.append(NEW)
    for part in NET.parts:
        x = part(x)
    return x, len(NET.parts), len(list(NET.parts))


@program(X, graphs=2, breaks=4)
def a_list_of_parameters_that_grows(x):
    NET.rates.append(RATE)
    for rate in NET.rates:
        x = x * rate
    return x


@program(X, graphs=1, breaks=1)
def a_parameter_of_a_layer_of_paddle(x):
    NET.first.add_parameter("weight", WEIGHT)
    return NET.first(x), NET(x)


@program(X, graphs=0, breaks=1)
def no_bias(x):
    NET.first._parameters["bias"] = None
    return NET.first(x)


@program(X, graphs=1, breaks=1)
def a_parameter_that_is_read(x):
    NET.first._parameters["weight"] = WEIGHT
    return NET.first.weight * x


@program(X, graphs=2, breaks=1)
def a_buffer(x):
    NET._buffers["scale"] = x[0] + 1
    return NET(x)


@program(X, graphs=3, breaks=1)
def a_hook(x):
    before = NET.first(x)
    NET.first._forward_post_hooks[99] = doubled
    return before, NET.first(x), NET(x)


@program(X, graphs=2, breaks=2)
def a_hook_that_goes_again(x):
    NET.first._forward_post_hooks[99] = doubled
    during = NET(x)
    del NET.first._forward_post_hooks[99]
    return during, NET(x)


@program(X, graphs=1, breaks=0)
def parts_of_another_layer(x):
    NET.parts._sub_layers["1"] = NEW
    return NET(x)


def named(*names):
    layers = nn.LayerList()
    for name, layer in zip(names, [nn.ReLU(), nn.Sigmoid()], strict=True):
        layers.add_sublayer(name, layer)
    return layers


SWAPPED, ODD = named("1", "0"), named("0", "x")
RATES = nn.ParameterList([paddle.create_parameter([2], "float32") for _ in range(2)])


@program(X, graphs=1, breaks=0)
def a_list_counts_by_names(x):
    return SWAPPED[0](x), SWAPPED[-1](x), ODD[0](x), [type(layer).__name__ for layer in SWAPPED]


@program(X, graphs=0, breaks=2)
def a_list_without_the_name(x):
    return ODD[-1](x)


@program(X, graphs=0, breaks=2)
def a_list_at_true(x):
    return SWAPPED[True](x)


@program(X, graphs=0, fallbacks=None)
def a_list_of_parameters_from_behind(x):
    return x * RATES[-1]


@program(X, graphs=0, breaks=None)
def a_new_list_at_true(x):
    return NET.parts[:][True](x)


class Renaming(nn.Layer):
    """Is asked for what is not in the dictionary: also for what is registered."""

    def __init__(self):
        super().__init__()
        self.first, self.part = paddle.ones([2]), nn.ReLU()
        self.rate = self.create_parameter([2])

    def __getattr__(self, name):
        if name == "rate":
            return super().__getattr__("first")
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.part, name)

    def forward(self, x):
        self.kept = x * 3
        return self.part(x * self.rate), self._act() if hasattr(self, "_act") else self._name, self.kept


RENAMING = Renaming()


@program(X, graphs=1, breaks=0)
def attributes_that_a_class_looks_up(x):
    return RENAMING(x)


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    check(function, *args, reset=reset, watch=names, repeat=3, **expected)


LIST, FIRST, SECOND = nn.LayerList([nn.ReLU(), nn.Sigmoid()]), nn.ReLU(), nn.Sigmoid()
OTHERS = {
    "items": (nn.LayerList, "__getitem__", lambda own, of, at: own(of, at if isinstance(at, slice) else 1 - at)),
    "iteration": (nn.LayerList, "__iter__", lambda own, of: iter([*own(of)][::-1])),
    "length": (nn.LayerList, "__len__", lambda own, of: NET.steps.append(NEW) and own(of)),
    "constructor": (nn.LayerList, "__init__", lambda own, of, parts: own(of, [*parts][::-1])),
    "forward": (nn.Sequential, "forward", lambda own, of, x: x * 100),
    "items of a sequence": (nn.Sequential, "__getitem__", lambda own, of, at: SECOND),
    "length of a sequence": (nn.Sequential, "__len__", lambda own, of: 7),
}


@pytest.mark.parametrize("other", OTHERS)
def test_methods_of_containers_that_are_replaced(other, monkeypatch):
    def function(x):
        made, rest = nn.Sequential(FIRST, SECOND), LIST[:]
        names = [type(layer).__name__ for layer in LIST], [type(layer).__name__ for layer in list(LIST)]
        return LIST[0](x), rest[0](x), names, len(made), made[0](x), made(x)

    of, name, instead = OTHERS[other]
    own = getattr(of, name)
    run = translate(function)

    def outcome(function):
        reset()
        return _Picture().of((function(X), len(NET.steps._sub_layers)))

    before = outcome(function)
    for method in (own, lambda *args: instead(own, *args), own):
        monkeypatch.setattr(of, name, method)
        expected = outcome(function)
        assert (difference(expected, before, close=False) is None) == (method is own)
        for _ in range(2):
            assert difference(expected, outcome(run), close=False) is None
