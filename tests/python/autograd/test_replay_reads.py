"""What code that runs again on the way back (`recompute`, `backward` of a PyLayer) reads, and what changes before."""

import paddle
import pytest
from harness import Programs, check, tensor
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

# What is done with a graph does not depend on the version of Python.
pytestmark = [pytest.mark.default_python, pytest.mark.filterwarnings("ignore")]

X = tensor(3, 4, grad=True)
Y = tensor(3, 4, seed=1, grad=True)
case = cases = Programs()
SCALE = 2.0


class Settings:
    def __init__(self):
        self.scale, self.other = 2.0, 1.0


SETTINGS = Settings()


def reset():
    global SCALE
    SCALE = 2.0
    SETTINGS.__init__()


@case(X, breaks=1)
def a_number_is_bound_again(x):
    a = 2.0
    y = recompute(lambda v: (v * a).sin(), x * 1)
    a = 5.0
    return y * a


@case(X, Y, breaks=1)
def a_tensor_is_bound_again(x, z):
    r, a = z.detach() * 2, z.detach()
    b = recompute(lambda v: v * r + a, x * 1)
    a = z.detach() * 3
    r = r + 1
    return b * a


@case(X, graphs=1, breaks=0)
def it_was_bound_before(x):
    a = 2.0
    a = a + 1
    y = recompute(lambda v: (v * a).sin(), x * 1)
    return y * a


@case(X, graphs=1, breaks=0)
def it_is_another_variable(x):
    a = b = 2.0
    y = recompute(lambda v: (v * a).sin(), x * 1)
    b = y * 5.0
    return (lambda: b * a)()


@case(X, breaks=3)
def bound_again_behind_a_break(x):
    a = 2.0
    y = recompute(lambda v: (v * a).sin(), x * 1)
    print(float(y.sum()))
    a = 5.0
    return y * a


@case(X, graphs=2, breaks=2)
def bound_in_front_of_it_and_a_break(x):
    a = 2.0
    a = a + 1
    y = recompute(lambda v: (v * a).sin(), x * 1)
    print(float(y.sum()))
    return y.sin().cos().tan() * a


@case(X, breaks=5)
def bound_again_behind_breaks(x):
    a = 2.0
    print(float(x.sum()))
    y = recompute(lambda v: (v * a).sin(), x * 1)
    print(float(y.sum()))
    a = 5.0
    return y * a


@case(X, breaks=2)
def bound_again_in_a_handler(x):
    a = 2.0
    y = recompute(lambda v: (v * a).sin(), x * 1)
    try:
        print(float(y.sum()) / 0)
    except ZeroDivisionError:
        a = 5.0
    return y * a


@case(X, breaks=3)
def the_variable_of_a_loop(x):
    for k in (1.0, 2.0, 3.0):
        x = recompute(lambda v: (v * k).sin(), x * 1)  # noqa: B023 - that is the point
    return x


@case(X, breaks=5)
def bound_again_by_the_loop_that_breaks(x):
    a = 1.0
    for k in range(2):
        a = a + 1
        if k == 0:
            y = recompute(lambda v: (v * a).sin(), x * 1)  # noqa: B023
            print(float(y.sum()))
    return y * a


@case(X, graphs=1, breaks=0)
def each_round_has_its_own(x):
    def made(k):
        return lambda v: (v * k).sin()

    for k in (1.0, 2.0, 3.0):
        x = recompute(made(k), x * 1)
    return x


@case(X, breaks=1)
def an_inner_function_binds_it(x):
    a = 2.0

    def more():
        nonlocal a
        a = a + 3.0

    y = recompute(lambda v: (v * a).sin(), x * 1)
    more()
    return y * a


@case(X, breaks=3)
def an_inner_function_binds_it_behind_a_break(x):
    a = 2.0

    def more():
        nonlocal a
        a = a + 3.0

    y = recompute(lambda v: (v * a).sin(), x * 1)
    print(float(y.sum()))
    more()
    return y * a


@case(X, breaks=1)
def an_attribute(x):
    y = recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1)
    SETTINGS.scale = 5.0
    return y * 2


@case(X, breaks=3)
def an_attribute_behind_a_break(x):
    def change():
        SETTINGS.scale = 5.0

    y = recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1)
    print(float(y.sum()))
    change()
    return y * 2


@case(X, graphs=1, breaks=0)
def another_attribute(x):
    y = recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1)
    SETTINGS.other = 5.0
    return y * 2


@case(X, breaks=1)
def an_attribute_in_front_of_it(x):
    SETTINGS.scale = 5.0
    y = recompute(lambda v: (v * SETTINGS.scale).sin(), x * 1)
    return y * 2


@case(X, breaks=1)
def an_attribute_of_what_the_frame_made(x):
    settings = Settings()
    y = recompute(lambda v: (v * settings.scale).sin(), x * 1)
    settings.scale = 5.0
    return y * 2


def through(settings, x):
    return recompute(lambda v: (v * settings.scale).sin(), x * 1)


@case(X, breaks=1)
def an_attribute_that_the_caller_writes(x):
    y = through(SETTINGS, x)
    SETTINGS.scale = 5.0
    return y * 2


@case(X, breaks=1)
def a_global(x):
    global SCALE
    y = recompute(lambda v: (v * SCALE).sin(), x * 1)
    SCALE = 5.0
    return y * 2


@case(X, breaks=1)
def an_item(x):
    sizes = [2.0, 3.0]
    y = recompute(lambda v: (v * sizes[0]).sin(), x * 1)
    sizes[0] = 5.0
    return y * sizes[1]


@case(X, breaks=1)
def one_more_item(x):
    sizes = {"a": 2.0}
    y = recompute(lambda v: (v * len(sizes)).sin(), x * 1)
    sizes["b"] = 5.0
    return y * 2


@case(X, [2.0, 1.0], breaks=2)
def an_item_behind_a_break(x, sizes):
    y = recompute(lambda v: (v * sizes[0]).sin(), x * 1)
    print("break")
    sizes[0] = 5.0
    return y * 2


@case(X, [2.0, 1.0], breaks=2)
def one_less_behind_a_break(x, sizes):
    y = recompute(lambda v: (v * sizes[-1]).sin(), x * 1)
    print("break")
    sizes.pop()
    return y * 2


@case(X, {"scale": 2.0}, breaks=2)
def a_value_of_a_dict_behind_a_break(x, table):
    y = recompute(lambda v: (v * table["scale"]).sin(), x * 1)
    print("break")
    table["scale"] = 5.0
    return y * 2


@case(X, [2.0, 1.0], graphs=2, breaks=1)
def an_item_of_another_list_without_items_inside(x, sizes):
    y = recompute(lambda v: (v * 2.0).sin(), x * 1)
    print("break")
    sizes[0] = 5.0
    return y * 2


@case(X, graphs=1, breaks=0)
def a_list_that_it_does_not_look_into(x):
    outs = []
    for k in range(3):
        x = recompute(lambda v, k=k: (v * (k + 1)).sin(), x * 1)
        outs.append(x)
    return outs


@case(X, breaks=1)
def an_argument(x):
    sizes = [2.0, 3.0]
    y = recompute(lambda v, sizes: (v * sizes[0]).sin(), x * 1, sizes, use_reentrant=False)
    sizes.reverse()
    return y * 2


@case(X, breaks=1)
def what_an_iterator_has_left(x):
    numbers = iter([2.0, 3.0, 4.0])
    y = recompute(lambda v: (v * next(numbers)).sin(), x * 1)
    return y * 2


@case(X, Y, breaks=1)
def a_tensor_changes(x, z):
    a = z.detach() * 2
    y = recompute(lambda v: (v * a).sin(), x * 1)
    a.add_(paddle.ones([3, 4]))
    return y * a


@case(X, Y, breaks=1)
def a_part_of_a_tensor_changes(x, z):
    a = z.detach() * 2
    y = recompute(lambda v: (v * a).sin(), x * 1)
    a[0].add_(paddle.ones([4]))
    return y * a


@case(X, Y, breaks=3)
def a_tensor_from_outside_changes(x, z):
    y = recompute(lambda v: (v * z).sin(), x * 1)
    with paddle.no_grad():
        z.add_(paddle.ones([3, 4]))
    return y * 2


@case(X, Y, breaks=3)
def a_tensor_changes_behind_a_break(x, z):
    a = z.detach() * 2
    y = recompute(lambda v: (v * a).sin(), x * 1)
    print(float(y.sum()))
    a.add_(paddle.ones([3, 4]))
    return y * a


@case(X, breaks=1)
def an_argument_changes(x):
    a = x * 1
    y = recompute(lambda v: v.sin(), a)
    a.add_(paddle.ones([3, 4]))
    return y * 2


@case(X, breaks=2, capture_control_flow=True)
def in_a_branch(x):
    a = 2.0
    y = recompute(lambda v: (v * a).sin(), x * 1) if x.sum() < 100 else x * 2
    a = 5.0
    return y * a


@case(X, breaks=2, capture_control_flow=True)
def changed_in_a_branch(x):
    a = x.detach() * 2
    y = recompute(lambda v: (v * a).sin(), x * 1)
    if x.sum() < 100:
        a = a + 1
    return y * a


class Scaled(PyLayer):
    @staticmethod
    def forward(ctx, v, sizes):
        ctx.sizes = sizes
        return v * sizes[0]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.sizes[0]


class BySettings(PyLayer):
    @staticmethod
    def forward(ctx, v):
        return v * SETTINGS.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SETTINGS.scale


@case(X, breaks=1)
def a_list_that_a_context_keeps(x):
    sizes = [2.0, 3.0]
    y = Scaled.apply(x * 1, sizes)
    sizes[0] = 5.0
    return y * 2


@case(X, graphs=1, breaks=0)
def a_list_that_stays(x):
    sizes = [2.0, 3.0]
    sizes[0] = 5.0
    return Scaled.apply(x * 1, sizes) * 2


@case(X, breaks=1)
def an_attribute_that_backward_reads(x):
    y = BySettings.apply(x * 1)
    SETTINGS.scale = 5.0
    return y * 2


@case(X, breaks=3)
def inside_of_one_another(x):
    y = recompute(lambda v: BySettings.apply(v.sin()), x * 1)
    SETTINGS.scale = 5.0
    return y * 2


@pytest.mark.parametrize(("function", "args", "expectations"), cases)
def test_programs(function, args, expectations):
    expectations = {"fallbacks": None, **expectations}
    breaks = expectations.pop("breaks")
    record = check(
        function, *args, reset=reset, min_graph_size=0, breaks=breaks if breaks == 0 else None, **expectations
    )
    if record is not None:
        found = [f"{it.line}: {it.message}" for it in record.graph_breaks for _ in range(it.count)]
        assert len(found) == breaks, found
