"""Runs of one program that wait for their backward at once: they share a scope, and with it an executor."""

import itertools
import threading

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle_sot_rs._core import paddle_backend

pytestmark = pytest.mark.default_python


def network():
    paddle.seed(1)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Softplus(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 8))


def inputs():
    paddle.seed(2)
    return [paddle.randn([4, 8]) for _ in range(40)]


def leaf(tensor):
    leaf = tensor.clone()
    leaf.stop_gradient = False
    return leaf


def many(net, xs):
    ys = [net(x) for x in xs]
    sum(y.sum() * (at + 1) for at, y in enumerate(ys)).backward()
    return ys


def in_another_order(net, xs):
    ys = [net(x) for x in xs[:7]]
    for at in (3, 0, 6, 1):
        (ys[at] ** 2).sum().backward()
    ys.append(net(xs[8]))
    (ys[7] * ys[2]).sum().backward()
    del ys[4]
    net(xs[9]).sum().backward()
    return ys


def forward_between_backward(net, xs):
    one = [net(x) for x in xs[:3]]
    one[1].sum().backward()
    other = [net(x) for x in xs[3:6]]
    for y in (other[0], one[0], other[2], one[2], other[1]):
        y.sum().backward()
    return one + other


def one_behind_the_other(net, xs):
    x = y = leaf(xs[0])
    for _ in range(30):
        y = net(y)
    y.sum().backward()
    return [y, x.grad]


def retained(net, xs):
    ys = [net(x) for x in xs[:5]]
    loss = sum(y.sum() * (at + 1) for at, y in enumerate(ys))
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    net(xs[9]).sum().backward()
    loss.backward()
    with pytest.raises(SystemError, match="retain_graph"):
        ys[0].sum().backward()
    return ys


def asked_for(net, xs):
    x = leaf(xs[0])
    ys = [net(x * at) for at in range(5)]
    found = paddle.grad(ys[2].sum() + ys[4].sum(), [x])
    found += paddle.grad(ys[1].sum(), [x], retain_graph=True)
    sum(y.sum() for y in ys[:2]).backward()
    ys[3].sum().backward()
    return [*found, x.grad]


def never_gone_back(net, xs):
    """A node that goes without its backward empties the scope."""
    ys = [net(x) for x in xs[:6]]
    del ys[2], ys[0]
    sum(y.sum() for y in ys).backward()
    gone = net(xs[0])
    ys = [net(x) for x in xs[:3]]
    del gone
    sum(y.sum() for y in ys).backward()
    return ys


def backward_in_a_hook(net, xs):
    x = leaf(xs[0])
    first, other, last = net(x), net(leaf(xs[5])), net(leaf(xs[6]))
    second = net(first)
    others = [other]
    first.register_hook(lambda gradient: others and others.pop().sum().backward())
    second.register_hook(lambda gradient: gradient * 2)
    second.sum().backward()
    last.sum().backward()
    return [x.grad]


def backward_in_a_hook_of_a_waiting_one(net, xs):
    """The hook comes behind that of the program, in front of its backward."""
    ys = [net(x) for x in xs[:4]]
    others = [ys[0]]
    ys[3].register_hook(lambda gradient: others.pop().sum().backward() if others else None)
    ys[3].sum().backward()
    (ys[1] * ys[2]).sum().backward()
    return ys


def others_that_go_in_a_hook(net, xs):
    """Their nodes empty the scope. The hook comes behind that of the program."""
    others = [net(x) for x in xs[:3]]
    ys = [net(x) for x in xs[3:6]]
    ys[1].register_hook(lambda gradient: others.clear())
    for y in ys:
        y.sum().backward()
    return ys


def forward_in_a_hook(net, xs):
    ys = [net(x) for x in xs[:4]]
    more = []
    ys[2].register_hook(lambda gradient: more.append(net(xs[7])))
    sum(y.sum() for y in ys).backward()
    more[0].sum().backward()
    return ys + more


def a_hook_that_raises(net, xs):
    ys = [net(x) for x in xs[:4]]

    def refuse(gradient):
        raise ValueError("no")

    ys[2].register_hook(refuse)
    for at in (0, 2, 1, 3):
        if at == 2:
            with pytest.raises(OSError, match="no"):
                ys[at].sum().backward()
        else:
            ys[at].sum().backward()
    (net(xs[4]) * net(xs[5])).sum().backward()
    return ys


def changed_in_place(net, xs):
    ys = [net(x) for x in xs[:4]]
    ys[1].add_(paddle.ones([4, 8]))
    sum(y.sum() for y in ys).backward()
    return ys


def forward_in_threads(net, xs):
    ys = {}
    threads = [threading.Thread(target=lambda at=at: ys.update({at: net(xs[at])})) for at in range(6)]
    for thread in threads:
        thread.start()
        thread.join()
    for at in range(6):
        ys[at].sum().backward()
    return list(ys.values())


def several_forward_in_a_thread(net, xs):
    """They wait elsewhere when this thread goes backward through them."""
    ys = []
    thread = threading.Thread(target=lambda: ys.extend(net(x) for x in xs[:5]))
    thread.start()
    thread.join()
    for y in reversed(ys):
        y.sum().backward()
    return ys


def backward_in_threads(net, xs):
    ys = [net(x) for x in xs[:6]]
    for y in ys:
        thread = threading.Thread(target=lambda y=y: (y**2).sum().backward())
        thread.start()
        thread.join()
    return ys


def executors_dropped(net, xs):
    ys = [net(x) for x in xs[:6]]
    paddle_backend.drop_executors()
    ys += [net(x) for x in xs[6:8]]
    for y in ys:
        (y**2).sum().backward()
    ys += [net(x) for x in xs[:6]]
    sum(y.sum() for y in ys[8:]).backward()
    return ys


CASES = (
    many,
    in_another_order,
    forward_between_backward,
    one_behind_the_other,
    retained,
    asked_for,
    never_gone_back,
    backward_in_a_hook,
    backward_in_a_hook_of_a_waiting_one,
    others_that_go_in_a_hook,
    forward_in_a_hook,
    a_hook_that_raises,
    changed_in_place,
    forward_in_threads,
    several_forward_in_a_thread,
    backward_in_threads,
    executors_dropped,
)


def translated(net, **options):
    return sot.to_static(net, min_graph_size=0, compile_at_call=1, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("backend", ["paddle", "pylayer"])
def test_runs_that_wait(case, backend):
    plain, net = network(), network()
    net = translated(net, backend=backend)
    for _ in range(2):
        expected, found = case(plain, inputs()), case(net, inputs())
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            assert numpy.array_equal(one.numpy(), other.numpy())
        for one, other in zip(plain.parameters(), net.parameters(), strict=True):
            assert numpy.array_equal(one.grad.numpy(), other.grad.numpy())
            one.clear_gradient(False)
            other.clear_gradient(False)
    stats = sot.stats(net)
    assert (stats.graphs, len(stats.graph_breaks), len(stats.fallbacks)) == (1, 0, 0)


def test_any_number_of_runs_are_programs():
    plain, net = network(), translated(network())
    ys = [net(x) for x in itertools.chain(inputs(), inputs())]
    nodes = {y.grad_fn.name() for y in ys}
    assert len(nodes) == 1
    assert plain(inputs()[0]).grad_fn.name() not in nodes


def test_sizes_that_differ():
    plain, net = network(), network()
    net = translated(net, input_spec=[paddle.static.InputSpec([None, 8], "float32")])
    for of in (plain, net):
        paddle.seed(3)
        ys = [of(paddle.randn([rows, 8])) for rows in (3, 5, 2, 7)]
        sum((y**2).sum() for y in ys).backward()
    for one, other in zip(plain.parameters(), net.parameters(), strict=True):
        assert numpy.array_equal(one.grad.numpy(), other.grad.numpy())


def test_inputs_that_lie_elsewhere_in_their_memory():
    """Rows of one tensor: they begin at other places of one memory."""
    plain, net = network(), network()
    net = translated(net)
    for of in (plain, net):
        paddle.seed(3)
        rows = paddle.randn([5, 4, 8])
        sum((of(rows[at]) ** 2).sum() for at in range(5)).backward()
    for one, other in zip(plain.parameters(), net.parameters(), strict=True):
        assert numpy.array_equal(one.grad.numpy(), other.grad.numpy())


def test_random_numbers_are_saved():
    def make():
        paddle.seed(1)
        return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1D(8), nn.GELU(), nn.Linear(8, 8))

    plain, net = make(), make()
    net = translated(net)
    for of in (plain, net):
        paddle.seed(3)
        ys = [of(x) for x in inputs()[:5]]
        sum((y**2).sum() for y in reversed(ys)).backward()
    for one, other in zip(plain.parameters(), net.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or numpy.array_equal(one.grad.numpy(), other.grad.numpy())
    for one, other in zip(plain.state_dict().values(), net.state_dict().values(), strict=True):
        assert numpy.array_equal(one.numpy(), other.numpy())


def test_results_count_their_changes_by_themselves():
    """The first result goes on being changed while the second one waits."""

    def exponential(x, w):
        y = x * w + 1
        return (y * 2 - 1).exp()

    f = sot.to_static(exponential, min_graph_size=0, compile_at_call=1)
    x = inputs()[0]
    gradients = []
    for of in (exponential, f, f):
        w = leaf(inputs()[1])
        first = of(x, w)
        first.sum().backward()
        second = of(x, w)
        with paddle.no_grad():
            first.add_(x)
        second.sum().backward()
        third, fourth = of(x, w), of(x, w)
        with paddle.no_grad():
            third.add_(x)
        assert (third.inplace_version, fourth.inplace_version) == (1, 0)
        fourth.sum().backward()
        gradients.append(w.grad.numpy())
    assert numpy.array_equal(gradients[0], gradients[1])
    assert numpy.array_equal(gradients[0], gradients[2])
    assert sot.stats(f).graphs == 1


def test_what_was_saved_goes_with_the_results():
    """Tensors of many runs that never go backward are not held."""
    net = translated(network())
    x = inputs()[0]
    before = len(paddle_backend.runs())
    for _ in range(3):
        kept = [net(x) for _ in range(20)]
        assert len(paddle_backend.runs()) == before + 20
        del kept
        assert len(paddle_backend.runs()) == before
