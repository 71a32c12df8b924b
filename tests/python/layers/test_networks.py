"""Whole networks: one graph, no breaks, equal to eager."""

import paddle_sot_rs as sot
import pytest
import zoo

QUICK = [network for network in zoo.NETWORKS if network.quick]
TOLERANCE = 1e-5


@pytest.mark.parametrize("network", QUICK, ids=lambda network: network.name)
def test_inference_is_one_graph(network):
    eager, static, inputs = zoo.pair(network, sot.to_static)
    for _ in range(2):
        assert zoo.difference(zoo.infer(eager, inputs), zoo.infer(static, inputs)) <= TOLERANCE
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks, record.recompiles) == (1, [], [], [])


@pytest.mark.parametrize("network", QUICK, ids=lambda network: network.name)
def test_five_training_steps_are_one_graph(network):
    eager, static, inputs = zoo.pair(network, sot.to_static)
    assert zoo.difference(zoo.train(eager, inputs), zoo.train(static, inputs)) <= TOLERANCE
    record = sot.stats(static)
    assert (record.graphs, record.graph_breaks, record.fallbacks, record.recompiles) == (1, [], [], [])
