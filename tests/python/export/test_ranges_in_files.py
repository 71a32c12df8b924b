"""Ranges of named dims are part of an exported file: calls with other sizes say the dim, by its name."""

import os
import re

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import inference, nn
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python

ROWS = sot.Dim("rows", min=4, max=16, multiple_of=4)


def weighed(weights, x, other):
    return (x * weights + other).sum(axis=1), x / x.shape[0]


def saved(tmp_path, function, *specs):
    path = str(tmp_path / "net")
    sot.save(function, path, list(specs))
    return path


def predictor(path, onednn):
    config = inference.Config(path + ".json", path + ".pdiparams" if os.path.exists(path + ".pdiparams") else "")
    config.disable_glog_info()
    config.switch_ir_optim(True)
    config.enable_mkldnn() if onednn else config.disable_mkldnn()
    return inference.create_predictor(config)


def runs(path):
    """The ways to run a file."""
    yield paddle.jit.load(path)
    for onednn in (False, True):
        found = predictor(path, onednn)
        yield lambda *given, found=found: found.run(list(given))


def test_ranges(tmp_path):
    specs = [InputSpec(shape, "float32", name) for shape, name in (([3], "w"), ([ROWS, 3], "x"), ([1, 3], "o"))]
    path = saved(tmp_path, weighed, *specs)
    for run in runs(path):
        for size in (4, 8, 16):
            given = paddle.randn([3]), paddle.randn([size, 3]), paddle.randn([1, 3])
            found, expected = run(*given), weighed(*given)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        for size in (2, 6, 20, 0, 1):
            with pytest.raises(ValueError, match=re.escape(f"x.shape[0] is {ROWS!r}'")):
                run(paddle.ones([3]), paddle.ones([size, 3]), paddle.ones([1, 3]))
        # It goes on.
        assert run(paddle.ones([3]), paddle.ones([4, 3]), paddle.ones([1, 3]))[0].tolist() == [6.0] * 4


def test_networks(tmp_path):
    net = nn.Sequential(
        nn.Conv2D(3, 4, 3, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(4, 2, 1)
    )
    net.eval()
    sides = [sot.Dim(name, min=8, multiple_of=2) for name in ("h", "w")]
    for run in runs(saved(tmp_path, net, InputSpec([None, 3, *sides], "float32", "x"))):
        for size in ([1, 3, 8, 10], [2, 3, 12, 8]):
            x = paddle.randn(size)
            found = run(x)
            found = found[0] if isinstance(found, list) else found
            np.testing.assert_allclose(found.numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match=re.escape("x.shape[3] is Dim('w', min=8, multiple_of=2)")):
            run(paddle.ones([1, 3, 8, 11]))


@pytest.mark.parametrize(
    ("dim", "allowed", "others"),
    [
        (sot.Dim("höhe 'a'", min=3), (3, 8), (2,)),
        (sot.Dim("n", max=8), (1, 8), (9, 0)),
        (sot.Dim("n", multiple_of=2), (2, 10), (0, 1, 5)),
    ],
    ids=("min", "max", "multiple_of"),
)
def test_each(dim, allowed, others, tmp_path):
    layer = nn.Linear(3, 2)
    loaded = paddle.jit.load(saved(tmp_path, layer, InputSpec([None, dim, 3], "float32", "image")))
    for size in allowed:
        x = paddle.randn([2, size, 3])
        np.testing.assert_allclose(loaded(x).numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)
    for size in others:
        with pytest.raises(ValueError, match=re.escape(f"image.shape[1] is {dim!r}")):
            loaded(paddle.ones([2, size, 3]))


DTYPES = ("float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, tmp_path):
    wide = "complex128" if dtype == "complex64" else "float64"
    for run in runs(saved(tmp_path, lambda x: x.astype(wide) + 1, InputSpec([None, ROWS], dtype, "x"))):
        for batch in (2, 0):
            found = run(paddle.ones([batch, 4]).astype(dtype))
            found = found[0] if isinstance(found, list) else found
            assert found.shape == [batch, 4] and (found == 2).all()
        with pytest.raises(ValueError, match="rows"):
            run(paddle.ones([2, 5]).astype(dtype))


def test_dims_of_one_name_are_equal(tmp_path):
    n = sot.Dim("n", max=9)
    path = saved(tmp_path, lambda x, y: x + y, InputSpec([n], "float32", "x"), InputSpec([n], "float32", "y"))
    for run in runs(path):
        run(paddle.ones([5]), paddle.ones([5]))
        with pytest.raises(ValueError, match=re.escape("y.shape[0] is Dim('n', max=9), and as x.shape[0]")):
            run(paddle.ones([5]), paddle.ones([1]))


def test_names_alone_add_nothing(tmp_path):
    path = saved(tmp_path, lambda x: x * 2, InputSpec([sot.Dim("n"), 2], "float32", "x"))
    with open(path + ".json", encoding="utf-8") as file:
        assert "assert" not in file.read()
    assert paddle.jit.load(path)(paddle.ones([0, 2])).shape == [0, 2]


def test_the_range_comes_before_what_the_network_says(tmp_path):
    def halves(x):
        return x.reshape([2, x.shape[0] // 2, -1]).sum(axis=1)

    even = sot.Dim("even", multiple_of=2)
    for run in runs(saved(tmp_path, halves, InputSpec([even, 3], "float32", "x"))):
        for _ in range(20):
            with pytest.raises(ValueError, match="even"):
                run(paddle.ones([5, 3]))
            assert run(paddle.ones([4, 3]))[0].shape[-1] == 3


def test_training_of_what_is_loaded(tmp_path):
    layer = nn.Linear(3, 2)
    loaded = paddle.jit.load(saved(tmp_path, layer, InputSpec([ROWS, 3], "float32", "x")))
    loaded.train()
    for net in (loaded, layer):
        net(paddle.ones([8, 3])).sum().backward()
    found, expected = [[one.grad.numpy() for one in net.parameters()] for net in (loaded, layer)]
    assert sorted(one.tolist() for one in map(np.ravel, found)) == sorted(
        one.tolist() for one in map(np.ravel, expected)
    )
    with pytest.raises(ValueError, match="rows"):
        loaded(paddle.ones([7, 3]))


def test_methods_and_unused_inputs(tmp_path):
    class Net(nn.Layer):
        def forward(self, x, y):
            return x + 1

        def encode(self, x):
            return x * 2

    small = sot.Dim("small", max=4)
    specs = {
        "forward": [InputSpec([ROWS], "float32", "x"), InputSpec([small], "float32", "y")],
        "encode": [InputSpec([small], "float32", "x")],
    }
    sot.save(Net(), str(tmp_path / "net"), specs)
    loaded = paddle.jit.load(str(tmp_path / "net"))
    assert loaded(paddle.ones([4]), paddle.ones([3])).shape == [4] and loaded.encode(paddle.ones([3])).shape == [3]
    with pytest.raises(ValueError, match=r"y\.shape\[0\] is Dim\('small', max=4\)"):
        loaded(paddle.ones([4]), paddle.ones([5]))
    with pytest.raises(ValueError, match=r"x\.shape\[0\] is Dim\('small', max=4\)"):
        loaded.encode(paddle.ones([5]))
