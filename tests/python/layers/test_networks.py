"""Whole networks: one graph, no breaks, equal to eager."""

import functools

import paddle_sot_rs as sot
import pytest
import zoo

QUICK = [network for network in zoo.NETWORKS if network.quick]
# One of each family but the largest; `make zoo` has all.
MORE = {"googlenet", "resnext50_32x4d", "shufflenet_v2_swish", "squeezenet1_1"}
TRAINED = [*QUICK, *(network for network in zoo.NETWORKS if network.name in MORE)]
TOLERANCE = 1e-5


@pytest.mark.parametrize("network", QUICK, ids=lambda network: network.name)
def test_inference_is_one_graph(network):
    eager, static, inputs = zoo.pair(network, sot.to_static)
    for _ in range(2):
        assert zoo.difference(zoo.infer(eager, inputs), zoo.infer(static, inputs)) <= TOLERANCE
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks, record.recompiles) == (1, [], [], [])


@pytest.mark.parametrize("backend", ["paddle", "pylayer"])
@pytest.mark.parametrize("network", TRAINED, ids=lambda network: network.name)
def test_five_training_steps_are_those_of_eager_mode(network, backend):
    eager, static, inputs = zoo.pair(network, functools.partial(sot.to_static, backend=backend))
    plain, translated = ([value.numpy().tobytes() for value in zoo.train(net, inputs)] for net in (eager, static))
    assert translated == plain
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks, record.recompiles) == (1, [], [], [])
