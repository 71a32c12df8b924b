"""What networks of public projects do that once broke the graph or was wrong, each reduced to its core."""

import collections
import typing

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from harness import Programs, check, tensor, translate
from paddle import nn
from paddle.base import unique_name

case = cases = Programs()

X = tensor(2, 3, grad=True)


class Pair(typing.NamedTuple):
    scale: int
    shift: float


class Settings(collections.namedtuple("Settings", "scale shift")):
    def __new__(cls, scale, shift=2):
        return super().__new__(cls, scale, shift)

    def total(self):
        return self.scale + self.shift


class Slots(Pair):
    __slots__ = ()


class Stack(nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(3)
        self.blocks = nn.LayerList([nn.Linear(3, 3) for _ in range(4)])
        self.body = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
        self.settings = [Pair(1, 2.0), Settings(3), Slots(2, 0.5)]


STACK = Stack()


@case(X, graphs=1, breaks=0)
def part_of_a_list_of_layers(x):
    for block in STACK.blocks[1:]:
        x = block(x)
    for at, block in enumerate(STACK.blocks[:2]):
        x = block(x) + at
    return x


@case(X, graphs=1, breaks=0)
def part_of_a_part_of_layers(x):
    for block in STACK.blocks[::-1][1:3]:
        x = block(x)
    last = STACK.blocks[1:][-1]
    return last(x) + len(STACK.blocks[:3]) if STACK.blocks[:1] else x


@case(X, graphs=1, breaks=0)
def part_of_a_sequence_is_called(x):
    part = STACK.body[1:3]
    return part(x) * 2 if isinstance(part, nn.Sequential) else x


@case(X, graphs=1, breaks=0)
def empty_part_of_layers(x):
    for block in STACK.blocks[4:]:
        x = block(x)
    return x + 1 if STACK.blocks[4:] else x - 1


@case(X, graphs=1, breaks=0)
def fields_of_derived_named_tuples(x):
    for settings in STACK.settings:
        x = x * settings.scale + settings.shift
    return x + STACK.settings[1].total()


# Layers without parameters that a forward makes for one call.


@case(X, graphs=1, breaks=0)
def new_activations(x):
    return nn.Softmax(axis=-1)(x) + nn.LeakyReLU(negative_slope=0.2)(x) + nn.Sequential(nn.ReLU(), nn.Tanh())(x)


@case(X, graphs=1, breaks=0)
def new_losses_and_pools(x):
    pooled = nn.AvgPool1D(kernel_size=2, stride=1)(x.unsqueeze(0))
    return nn.MSELoss(reduction="sum")(pooled, pooled * 2)


@case(X, graphs=1, breaks=0)
def new_dropout(x):
    return nn.Dropout(0.5)(x)


# Changes in place of what was looked into before.


@case(X, graphs=1, breaks=0)
def adds_to_a_part(x):
    y = x * 2
    y[:, 1:] += x[:, 1:]
    y[0] = y[0] - x[1]
    return y


@case(X, graphs=1, breaks=0)
def changes_after_additions(x):
    y = x @ x.t()
    z = y + 1
    y[0] = 0.5
    return y * z


@case(X, graphs=2, breaks=1)
def view_that_is_used_later(x):
    y = x * 2
    part = y[:, 1:]
    row = part[0]
    y[:, 1:] = 1.0
    return y * 2, row * 3


@case(X, graphs=1, breaks=1)
def view_that_is_not_used_later(x):
    y = x * 2
    part = y[:, 1:]
    y[:, 1:] = part + 1
    print("between")
    return y


@case(X, graphs=1, breaks=0)
def is_a_dead_view_none(x):
    y = x * 2
    part = y[:, 1:]
    y[:, 1:] = 1.0
    return y if part is not None else x


# Gradients that stop at a tensor of the frame.


@case(X, graphs=1, breaks=0)
def guide_without_gradient(x):
    guide = x.clone()
    guide.stop_gradient = True
    return (guide * x).sum() + x


@case(X, graphs=2, breaks=1)
def guide_comes_out(x):
    guide = x.clone()
    guide.stop_gradient = True
    return (guide * x).sum() + x, guide


@case(X, graphs=2, breaks=1)
def gradient_stops_beside_a_view(x):
    y = x * 2
    row = y[0]
    y.stop_gradient = True
    return y * x + row


# Comparisons that only `object` knows.


@case(X, graphs=1, breaks=0)
def layers_are_no_names(x):
    if STACK.body == "sar" or 3 == STACK or STACK != STACK:  # noqa: PLR0124 - what is asked for
        return x
    return x + 1 if STACK.body == STACK.body and STACK.body != STACK.blocks else x - 1  # noqa: PLR0124 - what is asked for


# Scalars of NumPy.

HALF, THREE, SINGLE, YES = np.float64(0.5), np.int64(3), np.float32(1.5), np.bool_(True)


@case(X, graphs=1, breaks=0)
def scaled_by_scalars(x):
    return x * HALF / np.sqrt(3) - THREE + x**SINGLE + (x > HALF).astype("float32")


@case(X, graphs=1, breaks=0)
def sizes_by_numpy(x):
    rows = int(np.sqrt(4))
    return x.reshape([rows, int(np.prod([3, 2])) // rows]) + float(np.ceil(HALF)) + max(np.log(2.0), 0)


@case(X, graphs=1, breaks=0)
def branches_on_scalars(x):
    if HALF == 0.0 or not YES or np.isnan(HALF):
        return x
    return x + 1 if HALF < 1 - HALF / 2 else x - 1


@case(paddle.arange(3), graphs=1, breaks=1)
def integers_and_single_precision(x):
    y = x * np.float64(2)
    return x * SINGLE, y


@case(X, graphs=1)
def numpy_warns(x):
    return x + (1 if np.log(0) < 0 else 2)


@case(X, graphs=1, breaks=0)
def scalars_come_out(x):
    return x + 1, np.sqrt(2), HALF * 2, HALF


# Configurations and layers that look attributes up in their own way.


class Aliases:
    names = {}

    def __setattr__(self, name, value):
        super().__setattr__(super().__getattribute__("names").get(name, name), value)

    def __getattribute__(self, name):
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)

    @property
    def double(self):
        return self.width * 2


class Options(Aliases):
    names = {"hidden_size": "width"}

    def __init__(self):
        self.width = 3
        self.scale = 0.5


class Fallback(Options):
    def __getattr__(self, name):
        if name == "dropout":
            return 0.0
        raise AttributeError(name)


OPTIONS, FALLBACK = Options(), Fallback()


@case(X, graphs=1, breaks=0)
def attributes_by_other_names(x):
    y = x * OPTIONS.scale + OPTIONS.hidden_size + OPTIONS.double + FALLBACK.dropout + FALLBACK.hidden_size
    if hasattr(OPTIONS, "nothing") or hasattr(FALLBACK, "nothing"):
        y = y * 2
    return y if getattr(OPTIONS, "depth", None) is None else x


def options_are_reset():
    OPTIONS.width = 3


@case(X, graphs=1, breaks=0, watch=lambda: OPTIONS.hidden_size, reset=options_are_reset)
def attributes_are_set_by_other_names(x):
    OPTIONS.hidden_size = OPTIONS.width + 1
    return x * OPTIONS.width


class Wrapped(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = STACK
        self.calls = 0

    def __setattr__(self, name, value):
        return super().__setattr__(name, value)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)


WRAPPED = Wrapped()


def calls_are_reset():
    WRAPPED.calls = 0


@case(X, graphs=1, breaks=0, watch=lambda: WRAPPED.calls, reset=calls_are_reset)
def layer_with_accessors(x):
    WRAPPED.calls = 7
    return WRAPPED.body(WRAPPED.inner.blocks[0](x)) + WRAPPED.calls + WRAPPED.settings[0].scale


@case(X, graphs=1, breaks=0)
def asks_how_paddle_is_built(x):
    if paddle.is_compiled_with_cuda() and paddle.device.is_compiled_with_rocm():
        return x
    return x * 2 if not paddle.device.get_all_custom_device_type() else x


@case(X, graphs=1, breaks=0)
def aliases_of_abstract_classes(x):
    sequence, mapping = isinstance([x], typing.Sequence), isinstance({"x": x}, typing.Mapping)
    return x * 2 if sequence and mapping and not isinstance(x, (typing.Sequence, typing.Mapping)) else x


# `where` in eager mode and in programs.

ZEROS = paddle.to_tensor([[-0.0, 1.0, -2.0]])


@case(X, ZEROS, graphs=1, breaks=0)
def where_with_other_shapes(x, zeros):
    return paddle.where(x > 0, zeros, x), 1 / paddle.where(x > 0, x=zeros, y=zeros), paddle.where(x < 0, 0.0, x)


@case(X, graphs=0, breaks=1)
def where_takes_bools_only(x):
    return paddle.where(x, 0.0, -1.0)


def said_of(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return str(error)


@case(X, fallbacks=None)
def where_of_what_is_no_tensor(x):
    return [said_of(paddle.where, *given) for given in [(True, 1, 2), (x > 0, [1.0, 2.0, 3.0], x), (x > 0, x, "no")]]


HOOKED = nn.Conv2D(1, 2, 3)
HOOKED.register_forward_post_hook(lambda layer, inputs, output: output * 2)


@case(tensor(1, 1, 4, 4), graphs=1, breaks=0)
def convolution_with_a_hook(x):
    return HOOKED(x)


# Sums of losses of which some have no gradient: the way back of `add_n` in a program ended the
# process.

PLAIN = tensor(2, 3, seed=5)


@case(X, PLAIN, graphs=1, breaks=0)
def sums_with_and_without_gradients(x, y):
    losses = {"a": (x * y).mean(), "b": y.mean(), "c": (x - y).square().mean()}
    return paddle.add_n(list(losses.values())), paddle.add_n(inputs=[y, x]), paddle.add_n([x, y * 2, x * x, y])


@case(X, PLAIN, graphs=1, breaks=0)
def sums_of_one_kind(x, y):
    return paddle.add_n([x, x * 2]), paddle.add_n([y, y]), paddle.add_n(x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("function", "args", "expectations"), cases)
def test_in_one_graph(function, args, expectations):
    check(function, *args, **expectations)


def test_a_part_that_stays_is_a_real_layer():
    def forward(x):
        part = STACK.blocks[1:]
        for block in part:
            x = block(x)
        return x, part

    function = translate(forward)
    for _ in range(3):
        (x, part), (y, other) = forward(X), function(X)
        assert (x == y).all()
        assert type(other) is nn.LayerList
        assert [id(block) for block in part] == [id(block) for block in other]


def test_parts_take_names_of_layers():
    def forward(x):
        for block in STACK.blocks[1:]:
            x = block(x)
        return STACK.body[2:](x)

    taken = []
    for function in (forward, translate(forward)):
        with unique_name.guard():
            function(X)
            function(X)
            taken.append((nn.LayerList().full_name(), nn.Sequential().full_name()))
    assert taken[0] == taken[1] == ("layer_list_2", "sequential_2")


def test_scalars_are_guarded():
    class Scale:
        factor = np.float64(2.0)

    def forward(x):
        return x * Scale.factor

    function = translate(forward)
    for factor in (np.float64(2.0), np.float64(2.0), np.float32(3.0), np.float64(-1.0), 4.0, np.float64("nan")):
        Scale.factor = factor
        assert np.array_equal(forward(X).numpy(), function(X).numpy(), equal_nan=True)


def test_new_layers_that_stay():
    def forward(x):
        act = nn.ReLU()
        return act(x), act

    function = translate(forward)
    made = [function(X)[1] for _ in range(3)]
    assert len({id(layer) for layer in made}) == 3
    assert all(type(layer) is nn.ReLU for layer in made)


# Masks of attention: the value is a text.
@case(X, graphs=1, breaks=0)
def full_of_a_text(x):
    mask = paddle.full([3, 3], "-inf").triu(1)
    large = paddle.full(shape=[2], fill_value="inf", dtype="float64")
    return x @ paddle.exp(mask), large, paddle.full([2], "0.1", "float64"), paddle.full([1], "-3", "int64")


@case(X, graphs=1, breaks=0)
def full_like_a_text(x):
    y = x.detach()
    return paddle.full_like(y, "-inf"), paddle.full_like(y.astype("float64"), fill_value="0.1")


@case(X, graphs=2, breaks=1)
def full_of_a_text_with_an_exponent(x):
    return x.exp() + paddle.full([3], "1e-3")


class Mode(nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(3)
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        self.training = True
        return self.inner(x), self.training


def test_a_mode_that_is_set_to_what_it_is():
    for training, breaks in ((True, 0), (False, 1)):
        outcomes = []
        for run in (lambda net: net, translate):
            net = Mode()
            net.train() if training else net.eval()
            function = run(net)
            for _ in range(3):
                net.inner.training = False
                outcomes.append((function(X)[0].tolist(), function(X)[1], net.training, net.inner.training))
        assert outcomes[:3] == outcomes[3:]
        assert sum(it.count for it in sot.stats(net).graph_breaks) == breaks and not sot.stats(net).fallbacks
    net.eval()
    assert function(X)[1] is True and net.training


def drop_path(x, rate):
    keep = paddle.to_tensor(1 - rate, dtype=x.dtype)
    return x.divide(keep) * paddle.floor(keep + paddle.rand([2, 1]))


def test_a_rate_that_is_a_scalar_of_numpy():
    rates = [np.float64(0.1), np.float32(0.3), np.float64(0.1)]

    class Block:
        rate = rates[0]

    def forward(x):
        return drop_path(x, Block.rate), paddle.to_tensor(Block.rate, "float32"), paddle.to_tensor(np.int64(3))

    function = translate(forward)
    for rate in rates:
        Block.rate = rate
        outcomes = []
        for run in (forward, function):
            paddle.seed(5)
            outcomes.append(run(X))
        for expected, found in zip(*outcomes, strict=True):
            assert expected.numpy().tobytes() == found.numpy().tobytes() and expected.dtype == found.dtype
    assert not sot.stats(function).graph_breaks


def noted(x):
    print("seen")
    return x * 2


def collected(xs):
    outs = []
    for x in xs:
        outs.append(noted(x + 1))
    outs.extend([xs[0]])
    return outs, len(outs)


def test_a_list_that_what_broke_the_graph_goes_into():
    record = check(collected, [X, X + 1], calls=[([X],), ([X] * 3,)])
    kinds = {reason.message for reason in record.graph_breaks}
    assert kinds == {"print()", "next() of an iterator that exists, which no guard can look into"}, kinds


def test_methods_of_lists_from_outside():
    kept = []

    def forward(x, push, other):
        push(x + 1)
        other(0, x * 2)
        return len(kept)

    def run(function):
        kept.clear()
        mine, seen = [], []
        for push, other in (
            (mine.append, kept.insert),
            (kept.append, kept.insert),
            (mine.append, mine.insert),
            (mine.append, kept.pop),
            (kept.append, mine.insert),
        ):
            try:
                seen.append(function(X, push, other))
            except TypeError as error:
                seen.append(str(error))
        return seen, [str(item) for item in mine], [str(item) for item in kept]

    assert run(forward) == run(translate(forward))


class Post:
    def __init__(self):
        self.top = 4
        self.threshold = 0.5
        self.names = ["a"]
        self.weight = paddle.ones([3])

    def __call__(self, x, number=None):
        kwargs = self.__dict__.copy()
        if number is not None:
            kwargs.update(top=number)
        kwargs.pop("threshold")
        found = "threshold" in self.__dict__, "other" in self.__dict__, self.__dict__.get("other"), "top" in kwargs
        return x * kwargs["top"] * kwargs["weight"] + self.__dict__["threshold"], kwargs["names"], list(kwargs), found


def test_the_dictionary_of_an_object():
    post = Post()
    check(post, X, calls=[(X, 3)], graphs=2, breaks=0, watch=lambda: dict(post.__dict__))
    translated = translate(post)
    for change in (
        lambda: None,
        lambda: setattr(post, "threshold", 0.25),
        lambda: setattr(post, "other", 7),
        lambda: (post.__dict__.pop("top"), post.__dict__.update(top=4)),
        lambda: setattr(post, "weight", post.weight * 2),
        lambda: setattr(post, "__dict__", dict(post.__dict__, threshold=0.75)),
    ):
        change()
        expected, found = post(X), translated(X)
        assert (expected[0] == found[0]).all() and expected[1] is found[1] and expected[2:] == found[2:]


class Bag:
    pass


@case(X, Bag(), graphs=1, breaks=0)
def the_dictionary_of_an_object_that_is_written_to(x, bag):
    bag.size = 3
    y = x * bag.__dict__["size"]
    bag.size = 4
    y = y + bag.__dict__["size"]
    del bag.size
    return y, "size" in bag.__dict__, bag.__dict__.get("size", 9)


@case(X, Bag())
def the_dictionary_of_an_object_that_was_written_to_is_copied(x, bag):
    bag.size = 3
    copied = bag.__dict__.copy()
    copied["more"] = x + copied["size"]
    bag.size = 5
    return copied, dict(bag.__dict__)


@case(X, Bag())
def a_dictionary_that_is_kept(x, bag):
    names = bag.__dict__
    y = x + 1
    bag.first = 2
    names["second"] = 3
    z = y * bag.second * names["first"]
    names.clear()
    return z, names, list(bag.__dict__.items())


@case(X, Bag())
def a_key_that_is_missing(x, bag):
    try:
        return bag.__dict__["missing"]
    except KeyError as error:
        return x + 1, error.args


@case(X, Bag())
def items_of_the_dictionary(x, bag):
    bag.one = 1
    for name, value in bag.__dict__.items():
        setattr(bag, name, value + 1)
        x = x * value
    return x, {name: value for name, value in bag.__dict__.items()}


class Weights(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.size = 2

    def forward(self, x):
        return self.inner(x) * self.__dict__["size"], "inner" in self.__dict__, self.__dict__.get("training")


def test_the_dictionary_of_a_layer():
    record = check(Weights(), X, graphs=1, breaks=0)
    assert record.graphs == 1
