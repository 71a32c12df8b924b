"""Train steps of several threads: their programs are made one at a time, like those of translations."""

import threading

import paddle
import paddle.nn.functional as F
import paddle_sot_rs as sot
import pytest
from paddle import nn

pytestmark = pytest.mark.default_python

THREADS, STEPS = 4, 4
X, Y = paddle.arange(12.0).reshape([3, 4]) / 12, paddle.ones([3, 2])


def plain(net, optimizer, average):
    loss = F.mse_loss(net(X), Y)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return loss


def inner(net, optimizer, average):
    loss = plain(net, optimizer, average)
    with paddle.no_grad():
        average.set_value(average * 0.5 + net[0].weight * 0.5)
    return loss


def trained(call):
    """What is left of networks that train at once, each in a thread of its own."""
    paddle.seed(0)
    nets = [nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)) for _ in range(THREADS)]
    averages = [net[0].weight.detach().clone() for net in nets]
    losses, errors = [[] for _ in nets], []

    def train(at):
        try:
            optimizer = paddle.optimizer.Adam(0.05, parameters=nets[at].parameters())
            losses[at] += [call(nets[at], optimizer, averages[at]) for _ in range(STEPS)]
        except BaseException as error:  # noqa: BLE001 - seen below
            errors.append(error)

    threads = [threading.Thread(target=train, args=(at,)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    parameters = [[it.tolist() for it in net.parameters()] for net in nets]
    return [[it.item() for it in of] for of in losses], parameters, [it.tolist() for it in averages]


@pytest.mark.parametrize("step", [plain, inner])
def test_programs_of_steps_are_made_one_at_a_time(step, impatient):
    """A trace asked which one is built, and found that of a thread which waited for its turn."""
    expected = trained(step)
    for _ in range(8):
        call = sot.to_static(step, min_graph_size=0)
        assert trained(call) == expected
        stats = sot.stats(call)
        assert (stats.graph_breaks, stats.fallbacks) == ([], [])
        assert stats.whole_steps
