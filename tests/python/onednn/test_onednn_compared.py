"""A program on oneDNN is compared with eager mode when it is made: where it computes something else it is not used.

The rules that keep faults of Paddle's passes apart are switched off here.
"""

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F

pytestmark = pytest.mark.default_python

if "onednn" not in sot.list_backends():
    pytest.skip("no such backend", allow_module_level=True)

OPTIONS = {"least_elements": 0}
COMPARED = "oneDNN: not used, "


def scaled_quotient(x):
    return x[:, :1] / (x.abs() + 1) * 2 + 1


def modules():
    sot.to_static(lambda x: x * 2, backend="onednn", options=OPTIONS, min_graph_size=0)(paddle.ones([2]))
    from paddle_sot_rs._onednn import compared, lowering

    return compared, lowering


@pytest.fixture
def without_rules(monkeypatch):
    _, lowering = modules()
    monkeypatch.setattr(lowering, "scales_a_quotient", lambda op, known: False)


def runs(function, *calls, backend="onednn", options=OPTIONS):
    translated = sot.to_static(function, backend=backend, options=options, min_graph_size=0)
    with paddle.no_grad():
        for x in calls:
            for _ in range(2):
                assert numpy.allclose(translated(x).numpy(), function(x).numpy(), 1e-4, 1e-5)
    stats = sot.stats(translated)
    assert (stats.graph_breaks, stats.fallbacks) == ([], [])
    return translated


@pytest.mark.otherwise
def test_a_pass_that_computes_something_else(without_rules, caplog):
    x = paddle.randn([2, 3, 4, 5])
    with caplog.at_level("WARNING", "paddle_sot_rs.backend"):
        translated = runs(scaled_quotient, x)
    assert "computes it otherwise than eager mode" in caplog.text
    assert "is off by" in caplog.text
    assert sot.stats(translated).graphs == 1


@pytest.mark.otherwise
def test_a_frozen_one(without_rules):
    x = paddle.randn([2, 3, 4, 5])
    frozen = sot.freeze(scaled_quotient, [(x,)], options=OPTIONS)
    assert numpy.allclose(frozen(x).numpy(), scaled_quotient(x).numpy(), 1e-4, 1e-5)
    assert any(COMPARED in line and "is off by" in line for line in frozen.report[0])


@pytest.mark.otherwise
def test_a_pass_that_raises(monkeypatch):
    _, lowering = modules()

    def fails(*given):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(lowering, "place", fails)
    x = paddle.randn([2, 3, 4, 5])
    runs(scaled_quotient, x)
    frozen = sot.freeze(scaled_quotient, [(x,)], options=OPTIONS)
    assert any(COMPARED in line and "no such kernel" in line for line in frozen.report[0])


def test_what_is_right_stays_on_onednn(caplog):
    paddle.seed(0)
    net = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    net.eval()
    x = paddle.randn([2, 3, 8, 8])
    with caplog.at_level("WARNING", "paddle_sot_rs.backend"):
        frozen = sot.freeze(net, [(x,)])
    assert caplog.text == ""
    assert numpy.allclose(frozen(x).numpy(), net(x).numpy(), 1e-3, 1e-4)
    assert any("oneDNN: " in line and " of " in line for line in frozen.report[0])


def test_statistics_move_once():
    """What writes its inputs does not run to be compared."""

    def build():
        paddle.seed(0)
        return nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU())

    plain, net = build(), build()
    translated = sot.to_static(net, backend="onednn", options=OPTIONS, min_graph_size=0)
    x = paddle.randn([2, 3, 8, 8])
    with paddle.no_grad():
        for _ in range(3):
            assert numpy.allclose(plain(x).numpy(), translated(x).numpy(), 1e-3, 1e-4)
    for one, other in zip(plain.state_dict().values(), net.state_dict().values(), strict=True):
        assert numpy.allclose(one.numpy(), other.numpy(), 1e-4, 1e-5)


def test_statistics_move_once_where_weights_change():
    """Programs whose weights turn out to be others while they run are run once more: not those that write."""

    def build():
        paddle.seed(0)
        return nn.Sequential(nn.Conv2D(64, 128, 3), nn.BatchNorm2D(128), nn.ReLU())

    plain, net = build(), build()
    translated = sot.to_static(net, backend="onednn", options=OPTIONS, min_graph_size=0)
    x = paddle.randn([2, 64, 8, 8])
    with paddle.no_grad():
        for turn in range(5):
            for one in (plain, net):
                weight = one[0].weight.numpy().copy()
                # Behind what is compared before each run.
                weight[-1] += turn
                one[0].weight.set_value(weight)
            assert numpy.allclose(plain(x).numpy(), translated(x).numpy(), 1e-3, 1e-4)
    for one, other in zip(plain.state_dict().values(), net.state_dict().values(), strict=True):
        assert numpy.allclose(one.numpy(), other.numpy(), 1e-3, 1e-4)


def test_random_state_stays():
    """Nothing is drawn from Paddle's generators to compare."""
    x = paddle.randn([2, 3, 4, 5])
    paddle.seed(3)
    runs(lambda x: F.relu(scaled_quotient(x)), x)
    found = paddle.rand([2])
    paddle.seed(3)
    assert paddle.equal_all(found, paddle.rand([2]))


@pytest.mark.parametrize(
    ("found", "wanted", "is_right"),
    [
        ([1.0, 2.0], [1.0, 2.001], True),
        ([1.0, 2.0], [2.0, 1.0], False),
        ([float("nan"), 2.0], [1.0, 2.0], False),
        ([float("inf"), 2.0], [float("nan"), 2.0], True),
        ([0.0, 0.0], [0.0, 0.0], True),
        ([1e-3, 0.0], [0.0, 0.0], False),
        ([], [], True),
        ([1, 2, 3, 4], [1, 2, 3, 5], True),
        ([1, 2, 3, 4], [4, 3, 3, 4], False),
        ([1.0], [[1.0]], False),
    ],
)
def test_what_counts_as_a_difference(found, wanted, is_right):
    compared, _ = modules()
    found, wanted = (paddle.to_tensor(numpy.array(it)) for it in (found, wanted))
    assert (compared.difference([found], [wanted], False) is None) == is_right
