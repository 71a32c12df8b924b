"""Exports of functions that do not take any size, and the check of what is exported."""

import logging

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.nn import functional as F
from paddle.static import InputSpec
from paddle_sot_rs._export import file_check

pytestmark = pytest.mark.default_python


def halves(x):
    a, b = paddle.chunk(x, 2, axis=1)
    return a * F.sigmoid(b)


def rows_of_four(x):
    return x.reshape([-1, 4, 3]).sum(1)


class UNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.down, self.inner = nn.Conv2D(3, 4, 3, padding=1), nn.Conv2D(4, 8, 3, padding=1)
        self.up, self.head = nn.Conv2DTranspose(8, 4, 2, stride=2), nn.Conv2D(8, 3, 1)

    def forward(self, x):
        skipped = F.relu(self.down(x))
        return self.head(paddle.concat([self.up(self.inner(F.max_pool2d(skipped, 2))), skipped], 1))


class Small(nn.Layer):
    """Convolutions without padding: small images leave nothing."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2D(3, 4, 3, stride=2), nn.Conv2D(4, 4, 5)

    def forward(self, x):
        return F.max_pool2d(self.b(F.max_pool2d(self.a(x), 3, 2)), 2).mean([2, 3])


IMAGES = InputSpec([None, 3, None, None], "float32", "x")
FIT = {
    "halves": (lambda: halves, InputSpec([None, None, 4]), [[1, 14, 4], [3, 6, 4], [2, 0, 4], [1, 2, 4]]),
    "rows_of_four": (lambda: rows_of_four, InputSpec([None, 3]), [[8, 3], [4, 3], [20, 3]]),
    "unet": (UNet, IMAGES, [[2, 3, 32, 48], [1, 3, 6, 2], [1, 3, 64, 32]]),
    "small": (Small, IMAGES, [[2, 3, 32, 48], [1, 3, 64, 33]]),
}


@pytest.mark.parametrize("name", FIT)
def test_sizes_that_a_function_takes_are_found(name, tmp_path, caplog):
    """One program, equal to eager mode at every size; nothing is said where the check could be made."""
    make, spec, shapes = FIT[name]
    function = make()
    prefix = str(tmp_path / "m")
    with caplog.at_level(logging.WARNING):
        sot.save(function, prefix, input_spec=[spec])
    assert not caplog.records
    loaded = paddle.jit.load(prefix)
    for shape in shapes:
        x = paddle.randn(shape)
        np.testing.assert_allclose(loaded(x).numpy(), function(x).numpy(), rtol=1e-4, atol=1e-5)


def test_what_no_size_mends_is_said_once():
    """The reason is the operator's own, and other reasons end the search at once."""
    with pytest.raises(sot.GraphBreakError, match=r"split|chunk|divisible"):
        sot.jit.concrete_program(lambda x: paddle.chunk(x, 541, axis=1), [InputSpec([None, None])])


def traced_twice(x):
    return x * 2


def test_a_wrong_export_writes_nothing(tmp_path, monkeypatch):
    """Older files stay as they are."""
    prefix = str(tmp_path / "m")
    spec = [InputSpec([None, 3], "float32", "x")]
    sot.save(nn.Linear(3, 2), prefix, input_spec=spec)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    traced = sot.jit._Capture._traced

    def wrong(self, inputs, args):
        if not any(dims for *_, dims in inputs):
            self = sot.jit._Capture(lambda x: paddle.tanh(x) * 2, self._function_spec, None, "capture")
        return traced(self, inputs, args)

    monkeypatch.setattr(sot.jit._Capture, "_function_spec", spec, raising=False)
    monkeypatch.setattr(sot.jit._Capture, "_traced", wrong)
    with pytest.raises(RuntimeError, match=r"differs from the function at x \[2, 3\].*other numbers"):
        sot.save(traced_twice, prefix, input_spec=spec)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class Counted(nn.Layer):
    """Its calls are seen, and so are its running statistics and random numbers."""

    def __init__(self):
        super().__init__()
        self.norm, self.calls = nn.BatchNorm1D(3), []

    def forward(self, x):
        return F.dropout(self.norm(x), 0.5, training=True)


def test_the_check_is_not_seen(tmp_path):
    """Statistics and random numbers are as if nothing had run."""
    net = Counted()
    net.train()
    paddle.seed(7)
    want = paddle.rand([3]).numpy()
    paddle.seed(7)
    mean = net.norm._mean.numpy()
    sot.save(net, str(tmp_path / "m"), input_spec=[InputSpec([None, 3])])
    np.testing.assert_array_equal(net.norm._mean.numpy(), mean)
    np.testing.assert_array_equal(paddle.rand([3]).numpy(), want)


def doubled(x):
    while x.sum() < 100:
        x = x * 2
    return x


def nested(x):
    rounds = paddle.zeros([])
    while rounds < 5:
        inner = paddle.zeros([])
        while inner < rounds:
            inner = inner + 1
            x = x + inner
        rounds = rounds + 1
    return x


def wider(x):
    while x.sum() < 1e9:
        x = paddle.concat([x, x])
    return x.sum()


def last(x):
    state = paddle.zeros([3])
    for row in x:
        state = state * 0.5 + row
    return state


def spoken(x):
    y = x * 2
    print(y)
    return y + 1


LOOPS = {"doubled": doubled, "nested": nested, "wider": wider, "last": last, "spoken": spoken}


@pytest.fixture
def compared(monkeypatch):
    """Whether the files could be compared, at each size that was tried."""
    found = []
    agree = file_check._agree

    def noted(*args, **options):
        found.append(agree(*args, **options))
        return found[-1]

    monkeypatch.setattr(file_check, "_agree", noted)
    return found


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_checked_and_end(name, tmp_path, compared, caplog, capfd):
    """Also those that never end with some numbers, or whose tensors grow; nothing is printed."""
    function = LOOPS[name]
    prefix = str(tmp_path / "m")
    with caplog.at_level(logging.WARNING):
        sot.save(sot.to_static(function, capture_control_flow=True), prefix, input_spec=[InputSpec([None, 3])])
    assert (compared, caplog.messages) == ([True, True], [])
    assert "Variable" not in "".join(capfd.readouterr())
    loaded = paddle.jit.load(prefix)
    for size in (1, 2, 5):
        x = paddle.ones([size, 3]) * size
        np.testing.assert_array_equal(loaded(x).numpy(), function(x).numpy())


OTHERS = {
    "doubled": lambda x: doubled(x) * 2,
    "nested": lambda x: nested(x) + 1,
    "last": lambda x: last(x * 2),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_wrong_loop_is_found(name, tmp_path, monkeypatch):
    spec = [InputSpec([None, 3], "float32", "x")]
    traced = sot.jit._Capture._traced

    def wrong(self, inputs, args):
        if not any(dims for *_, dims in inputs):
            self = sot.jit._Capture(OTHERS[name], spec, None, "capture")
        return traced(self, inputs, args)

    monkeypatch.setattr(sot.jit._Capture, "_traced", wrong)
    with pytest.raises(
        RuntimeError, match=r"differs from the function at x \[2, 3\], .*other numbers; nothing is written"
    ):
        sot.save(LOOPS[name], str(tmp_path / "m"), input_spec=spec)
    assert list(tmp_path.iterdir()) == []


def put(x, places):
    return paddle.put_along_axis(x, places.unsqueeze(1), 9.0, 1)


def test_sizes_at_which_a_kernel_reads_behind_the_end_are_not_run(tmp_path, compared):
    """Eager mode takes more places than there are rows, and writes behind the end: the check uses equal sizes then."""
    prefix = str(tmp_path / "m")
    spec = [InputSpec([None, 4], "float32", "x"), InputSpec([None], "int64", "places")]
    sot.save(put, prefix, input_spec=spec)
    assert compared.count(True) == 2
    loaded = paddle.jit.load(prefix)
    for rows in (1, 2, 5):
        x, places = paddle.randn([rows, 4]), paddle.randint(0, 4, [rows])
        np.testing.assert_array_equal(loaded(x, places).numpy(), put(x, places).numpy())
