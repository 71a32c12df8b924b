"""Backends of other packages: entry points, the plug-in interface, and the crate of docs/adding/backend.md."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle_sot_rs as sot
import pytest
from paddle import nn

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "custom-backend-rust"
PAGE = (ROOT / "docs" / "adding" / "backend.md").read_text()
X = paddle.to_tensor([0.1, 0.2, 0.3, 0.4])


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def announce(path, name, value):
    info = path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[paddle_sot_rs.backends]\n{name} = {value}\n")


@pytest.fixture
def removed():
    before = sot.list_backends()
    yield
    for name in set(sot._core.list_backends()) - set(before):
        sot.unregister_backend(name)


def test_entry_points_are_listed_and_loaded_when_they_are_used(tmp_path, monkeypatch, removed):
    (tmp_path / "plugin_module.py").write_text(
        "seen = []\ndef compiler(ir, metas):\n    seen.append(ir)\n    return ir\n"
    )
    (tmp_path / "failing_module.py").write_text("raise OSError('no such device')\n")
    announce(tmp_path, "working", "plugin_module:compiler")
    announce(tmp_path, "failing", "failing_module:compiler")
    announce(tmp_path, "wrong", "plugin_module:seen")
    monkeypatch.syspath_prepend(tmp_path)
    assert {"failing", "paddle", "working", "wrong"} <= set(sot.list_backends())
    assert "plugin_module" not in sys.modules
    with pytest.raises(ValueError, match=r"'failing' \(failing_module:compiler of failing\).*no such device"):
        sot.to_static(lambda x: x, backend="failing")
    with pytest.raises(ValueError, match="'wrong'.*expected a callable"):
        sot.to_static(lambda x: x, backend="wrong")
    f = sot.to_static(lambda x: x + 1, backend="working", min_graph_size=0)
    assert np.array_equal(f(X).numpy(), (X + 1).numpy())
    assert len(sys.modules["plugin_module"].seen) == 1
    del sys.modules["plugin_module"]


def test_an_unknown_backend_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown backend 'nope'; known: .*eager.*paddle"):
        sot.to_static(lambda x: x, backend="nope")


class Head(ctypes.Structure):
    # The fields that the tables of all versions begin with.
    _fields_ = [
        ("magic", ctypes.c_uint64),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
    ]


NAME = b"paddle_sot_rs.backend"
MAGIC = int.from_bytes(b"PdlSotRs", "big")


def capsule(head, name=NAME):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(head), name, None)


@pytest.mark.parametrize(
    ("head", "error", "text"),
    [
        (Head(MAGIC, 999, 16, b"9.9.9"), ImportError, r"version 999 of the plug-in interface \(paddle-sot 9.9.9\)"),
        (Head(MAGIC, 5, 16, b"0.1.0"), ImportError, "its table has 16 bytes instead of"),
        (Head(12345, 2, 16, b""), ImportError, "does not hold a table"),
    ],
)
def test_tables_of_other_versions_are_refused(head, error, text):
    with pytest.raises(error, match=text):
        sot.register_backend("other", capsule(head))
    with pytest.raises(TypeError, match="expected a callable, or the capsule"):
        sot.register_backend("other", capsule(head, b"something else"))
    assert "other" not in sot.list_backends()


def test_delegation_outside_of_a_compilation_is_refused():
    with pytest.raises(RuntimeError, match="only while it compiles"):
        sot._core.delegate("paddle", None, ())


def test_a_backend_with_too_few_outputs_is_left_aside(removed):
    sot.register_backend("few", lambda ir, metas: lambda *inputs: ir(*inputs)[:-1])
    f = sot.to_static(lambda x: (x + 1, x * 2), backend="few", min_graph_size=0)
    for _ in range(2):
        assert [y.numpy().tolist() for y in f(X)] == [(X + 1).numpy().tolist(), (X * 2).numpy().tolist()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The directory the example's wheel is installed in."""
    wheels, packages = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("packages")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target" / f"py{version}")) / "custom-backend-rust"
    quick = {"CARGO_PROFILE_DEV_DEBUG": "false", "CARGO_INCREMENTAL": "0"}
    environment = {**os.environ, **quick, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    build = [sys.executable, "-m", "maturin", "build", "--compatibility", "linux", "--interpreter", sys.executable]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target", packages]
    run([*build, "--out", wheels], cwd=EXAMPLE, env=environment)
    run([*pip, *wheels.glob("*.whl")])
    return packages


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def folding(installed, monkeypatch, removed):
    monkeypatch.syspath_prepend(installed)


def text(function):
    return sot.report.static_function(function).graphs()[-1].program.split("\n")[0]


def translated(function, **options):
    return sot.to_static(function, backend="folding", min_graph_size=0, options=options)


def test_the_page_shows_the_code_of_the_example():
    files = [*EXAMPLE.glob("src/*.rs"), *EXAMPLE.glob("*.toml"), ROOT / "backends" / "pylayer" / "src" / "lib.rs"]
    sources = "\n".join(path.read_text() for path in files)
    assert len(blocks("rust")) == 3 and len(blocks("toml")) == 2
    for block in [*blocks("rust"), *blocks("toml")]:
        assert block in sources
    assert "maturin build --compatibility linux" in blocks("sh")[0]


@pytest.mark.default_python
def test_the_page_runs(installed, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("python")))
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    output = run([sys.executable, script], env={**os.environ, "PYTHONPATH": path})
    assert "// folding: 1 constants, 2 statements merged" in output


@pytest.mark.default_python
def test_constants_and_common_expressions_are_computed_once(folding):
    def f(x):
        s = paddle.ones([4]) * 2 + paddle.arange(4, dtype="float32")
        a = (x * s).exp() + 1
        b = (x * s).exp() + 1
        return a * b + s

    g = translated(f)
    x, y = (paddle.to_tensor(X.numpy(), stop_gradient=False) for _ in range(2))
    for _ in range(3):
        found, expected = g(x), f(y)
        assert np.array_equal(found.numpy(), expected.numpy())
        found.sum().backward()
        expected.sum().backward()
    assert np.allclose(x.grad.numpy(), y.grad.numpy(), 1e-6)
    assert text(g) == "// folding: 1 constants, 3 statements merged"
    small = translated(f, max_elements=2)
    assert np.array_equal(small(x).numpy(), f(y).numpy())
    assert text(small) == "// folding: 0 constants, 3 statements merged"


@pytest.mark.default_python
def test_tensors_that_leave_the_graph_are_new_ones_in_each_call(folding):
    def f(x):
        a, b = x + 1, x + 1
        c = paddle.ones([4]) * 2
        d = paddle.ones([2, 2]) * 3
        return a, b, c, d.reshape([4]), x + 1.0

    g = translated(f)
    for _ in range(3):
        found = g(X)
        assert [y.numpy().tolist() for y in found] == [y.numpy().tolist() for y in f(X)]
        assert len({y.data_ptr() for y in found}) == 5
        for y in found:
            y.add_(paddle.ones([4]))


@pytest.mark.default_python
def test_gradients_that_are_switched_off_stay_off(folding):
    def f(x):
        s = paddle.full([4], 2.0) * 3
        with paddle.no_grad():
            a = x * s
            b = x * s
        return a + b + x * s

    g = translated(f)
    x, y = (paddle.to_tensor(X.numpy(), stop_gradient=False) for _ in range(2))
    g(x).sum().backward()
    f(y).sum().backward()
    assert np.array_equal(x.grad.numpy(), y.grad.numpy())
    assert text(g) == "// folding: 1 constants, 1 statements merged"


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 4, 3)
        self.norm = nn.BatchNorm2D(4)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        scale = paddle.full([1, 4, 1, 1], 0.5) + 1.0
        y = self.drop(nn.functional.relu(self.norm(self.conv(x)) * scale))
        z = self.drop(nn.functional.relu(y * scale)) + y * scale
        return self.last(z.mean([2, 3]))


@pytest.mark.default_python
def test_a_network_trains_as_in_eager_mode(folding):
    def train(wrap):
        paddle.seed(5)
        net = Net()
        call = wrap(net)
        optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        for step in range(3):
            paddle.seed(step)
            call(paddle.ones([2, 3, 6, 6]) * paddle.arange(6).astype("float32")).square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
        return net

    eager, ours = train(lambda net: net), train(translated)
    for expected, found in zip(eager.state_dict().values(), ours.state_dict().values()):
        assert np.allclose(expected.numpy(), found.numpy(), 1e-5, 1e-6)
    assert sot.stats(ours).graphs == 1 and sot.stats(ours).fallbacks == []
    assert text(ours) == "// folding: 1 constants, 1 statements merged"


@pytest.mark.default_python
def test_dims_may_be_dynamic(folding):
    def f(x):
        s = paddle.full([4], 2.0) * 3
        return (x * s).exp() + (x * s).exp()

    g = translated(f)
    for rows in (2, 3, 5, 7):
        x = paddle.ones([rows, 4])
        assert np.array_equal(g(x).numpy(), f(x).numpy())
    assert sot.stats(g).translations == 2 and sot.stats(g).fallbacks == []


@pytest.mark.default_python
@pytest.mark.parametrize("place", ["compile", "call"])
def test_a_panic_is_counted_and_the_frame_falls_back(folding, place):
    g = translated(lambda x: x.exp() + 1, panic=place)
    for _ in range(5):
        assert np.array_equal(g(X).numpy(), (X.exp() + 1).numpy())
    fallbacks = sot.stats(g).fallbacks
    where = 'the backend "folding" panicked in compile' if place == "compile" else "a graph of the backend"
    assert sum(event.count for event in fallbacks) == 3
    assert all(where in event.message and "as the options say" in event.message for event in fallbacks)


@pytest.mark.default_python
def test_options_of_the_plugin(folding):
    with pytest.raises(ValueError, match="folding takes max_elements and panic, not nope"):
        translated(lambda x: x, nope=1)
    with pytest.raises(TypeError):
        translated(lambda x: x, max_elements="many")
