"""Exports of functions that read NumPy arrays: those of networks, globals and arguments are constants."""

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

SPEC = [InputSpec([None, 3], "float32", "x")]
TABLE = np.linspace(0, 1, 3, dtype="float32")
PARTS = {"rows": [np.eye(3, dtype="float32"), TABLE]}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.mean, self.steps = np.array([1.0, 2.0, 3.0], dtype="float32"), np.array([2, 0, 1])


class Made(Net):
    def forward(self, x):
        return x + paddle.to_tensor(self.mean)


class Cast(Net):
    def forward(self, x):
        return x * paddle.to_tensor(self.steps, dtype="float32")


class Assigned(Net):
    def forward(self, x):
        return paddle.assign(self.mean) + x.mean()


class Computed(Net):
    def forward(self, x):
        return x + paddle.to_tensor(np.arange(3).astype("float32") * self.mean)


class Operand(Net):
    def forward(self, x):
        return x * self.mean + TABLE


class Scalars(Net):
    def forward(self, x):
        return x * float(self.mean[1]) + self.mean.sum() + np.sqrt(2.0) + len(self.mean) + self.mean.shape[0]


class Indices(Net):
    def forward(self, x):
        return x[:, self.steps] - x[:, int(self.steps[0])].unsqueeze(1)


class Nested(Net):
    def forward(self, x):
        rows = PARTS["rows"]
        return x @ paddle.to_tensor(rows[0] + rows[1]) if rows[1] is TABLE else x


class Iterated(Net):
    def forward(self, x):
        return sum(x * float(number) for number in self.mean)


class Copied(Net):
    def forward(self, x):
        own = np.array(self.mean)
        own[0] = 7
        return x + paddle.to_tensor(own) + paddle.to_tensor(self.mean)


READ = [Made, Cast, Assigned, Computed, Operand, Scalars, Indices, Nested, Iterated, Copied]


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
def test_arrays_are_constants(kind, tmp_path):
    """One graph, equal to eager mode; the arrays may change afterwards."""
    net = kind()
    sot.save(net, str(tmp_path / "m"), input_spec=SPEC)
    inputs = [paddle.randn([batch, 3]) for batch in (1, 2, 6)]
    want = [net(x).numpy() for x in inputs]
    net.mean[:] = 0
    net.steps[:] = 0
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for x, expected in zip(inputs, want, strict=True):
        np.testing.assert_allclose(loaded(x).numpy(), expected, rtol=1e-6)


def test_arguments_that_are_arrays(tmp_path):
    def scaled(x, by):
        return x * paddle.to_tensor(by)

    sot.save(scaled, str(tmp_path / "m"), input_spec=[*SPEC, np.array([1, 2, 3], "float32")])
    found = paddle.jit.load(str(tmp_path / "m"))(paddle.ones([2, 3]))
    np.testing.assert_array_equal(found.numpy(), [[1, 2, 3]] * 2)


class Written(Net):
    def forward(self, x):
        self.mean[0] = 5
        return x + paddle.to_tensor(self.mean)


class WrittenThroughAView(Net):
    def forward(self, x):
        part = self.mean[1:]
        part[0] = 5
        return x + paddle.to_tensor(self.mean)


class Added(Net):
    def forward(self, x):
        self.mean += 1
        return x + paddle.to_tensor(self.mean)


@pytest.mark.parametrize("kind", [Written, WrittenThroughAView, Added], ids=lambda kind: kind.__name__)
def test_writes_to_arrays_that_exist_are_refused(kind, tmp_path):
    """No program writes to them; the array is as it was."""
    net = kind()
    with pytest.raises(sot.GraphBreakError, match="a write to an array that exists"):
        sot.save(net, str(tmp_path / "m"), input_spec=SPEC)
    np.testing.assert_array_equal(net.mean, [1, 2, 3])


def test_calls_see_arrays_as_they_are():
    """Only exports fold them."""
    net = Made()
    static = sot.to_static(net)
    x = paddle.ones([2, 3])
    for number in (0, 4):
        net.mean[0] = number
        np.testing.assert_array_equal(static(x).numpy(), (x + paddle.to_tensor(net.mean)).numpy())
