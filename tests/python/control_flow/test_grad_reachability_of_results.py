"""Several results of one graph, of which some go backward: what the others depend on gets no gradient."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

MODES = {
    "program": {"full_graph": True},
    "eager": {"capture_control_flow": True, "backend": "eager"},
    "cinn": {"full_graph": True, "backend": "cinn", "dynamic": True},
}
DATA = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [0.1, 0.2, 0.3])
w = paddle.to_tensor([0.5, -1.0, 2.0], stop_gradient=False)


def straight(h, k):
    shared = h * 2
    return shared * k, shared + 1, k.exp()


def beside_a_branch(h, k):
    shared = h * 2
    if h.sum() > 0:
        shared = shared * w
    return shared * k, shared + 1


def of_a_branch(h, k):
    if h.sum() > 0:
        a, b = h * 2, k * 2
    else:
        a, b = h * 3, k + w
    return a, b


def one_side_of_a_branch(h, k):
    a, b = h * 1, k * 1
    if h.sum() > 0:
        a = a * k
    return a, b


def of_a_loop(h, k):
    n = h.detach().abs().sum()
    while n < 20:
        h, k, n = h * w, k * 1.5, n * 2 + 1
    return h, k + 1


FUNCTIONS = [straight, beside_a_branch, of_a_branch, one_side_of_a_branch, of_a_loop]


def observe(function, data, used, computed):
    """Gradients of what the arguments are computed from, and the calls of hooks."""
    seen, leaves, given = [], [], []
    w.clear_gradient(set_to_zero=False)
    for name, factor in (("h", 1.0), ("k", 0.5)):
        leaf = paddle.to_tensor(data, stop_gradient=False) * factor
        leaf = paddle.to_tensor(leaf.numpy(), stop_gradient=False)
        tensor = (leaf * 1.5).tanh() * 4 if name in computed else leaf
        if name in computed:
            # Not on leaves: a hook of a leaf that gets no gradient is called with None.
            tensor.retain_grads()
            tensor.register_hook(lambda gradient, name=name: seen.append(name))
        leaves += [leaf, tensor]
        given.append(tensor)
    results = function(*given)
    # Another use of what was computed: its gradient must arrive whatever the graph gives.
    extra = sum((tensor * 0.5).sum() for tensor in given)
    total = sum((results[at] * results[at]).sum() for at in used)
    (total + extra if len(used) == 1 and used[0] == 0 else total).backward()
    grads = [None if leaf.grad is None else leaf.grad.numpy() for leaf in (*leaves, w)]
    return [result.numpy() for result in results], grads, sorted(seen)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("computed", ["", "h", "k", "hk"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_some_results_go_backward(function, computed, mode):
    static = sot.to_static(function, min_graph_size=0, **MODES[mode])
    for data in (*DATA, *DATA):
        for used in ((0,), (1,), (0, 1)):
            want = observe(function, data, used, computed)
            got = observe(static, data, used, computed)
            for one, other in zip(got[0], want[0], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
            assert [one is None for one in got[1]] == [one is None for one in want[1]]
            for one, other in zip(got[1], want[1], strict=True):
                if one is not None:
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
            assert got[2] == want[2]
    stats = sot.stats(static)
    assert (stats.graphs, stats.graph_breaks, stats.fallbacks) == (1, [], [])


def test_a_decay_of_weights_does_not_see_zeros():
    """What a graph breaks behind is computed by another graph: an optimizer must not touch what has no gradient."""

    def run(wrap):
        paddle.seed(3)
        first, second = paddle.nn.Linear(3, 3), paddle.nn.Linear(3, 3)
        optimizer = paddle.optimizer.AdamW(0.1, parameters=first.parameters() + second.parameters(), weight_decay=0.5)
        function = wrap(straight)
        for step in range(3):
            x = paddle.to_tensor([DATA[step]])
            function(first(x), second(x))[1].sum().backward()
            optimizer.step()
            optimizer.clear_grad()
        return [parameter.numpy() for parameter in (*first.parameters(), *second.parameters())]

    want, got = run(lambda f: f), run(lambda f: sot.to_static(f, min_graph_size=0))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
