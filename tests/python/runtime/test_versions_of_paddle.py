"""A version of Paddle that nobody has tried: it is used where every self-test passes, and refused where not."""

from __future__ import annotations

import subprocess
import sys

import paddle
import pytest
from harness import check
from paddle_sot_rs import _core

PROGRAM = """
import warnings
import paddle
{before}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import paddle_sot_rs as sot
for warning in told:
    if "paddle_sot_rs" in str(warning.message):
        print(warning.category.__name__, warning.message)

@sot.to_static
def twice(x):
    return (x * 2 + 1).sum()

print(float(twice(paddle.ones([3]))), sot.stats(twice).graphs)
"""


def run(before):
    program = PROGRAM.format(before=before)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_layout_is_known():
    assert _core.layout_faults() == []


def test_a_known_version_says_nothing():
    done = run("")
    assert (done.returncode, done.stdout) == (0, "9.0 1\n"), done.stderr


@pytest.mark.parametrize("version", ["3.1.1", "4.0.0.dev20261128"])
def test_an_unknown_version_warns_and_goes_on(version):
    done = run(f"paddle.__version__ = {version!r}")
    assert done.returncode == 0, done.stderr
    warning, result = done.stdout.splitlines()
    assert warning.startswith("RuntimeWarning paddle_sot_rs supports PaddlePaddle 3.2 and 3.3; this is " + version)
    assert result == "9.0 1"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("paddle.Tensor._bump_inplace_version = lambda self: None", "in-place versions: what is read"),
        ("paddle.Tensor._register_grad_hook = lambda self, hook: 1", "hooks of gradients: "),
        ("paddle.Tensor._share_buffer_to = lambda self, other: None", "shared memory: "),
    ],
)
def test_an_unknown_version_that_cannot_be_read_is_refused(broken, told):
    done = run(f"paddle.__version__ = '3.9.0'\n{broken}")
    assert done.returncode == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith("ImportError: paddle_sot_rs supports PaddlePaddle 3.2 and 3.3; this is 3.9.0, whose obj")
    assert told in error
    assert error.endswith("pip install 'paddlepaddle>=3.2,<3.4'")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool", "complex64"])
@pytest.mark.parametrize("shape", [[], [3], [0, 4], [1, 2, 3, 4, 5]])
def test_results_count_their_own_changes(dtype, shape):
    """Two results of one scope: the second one is changed in place, which the first one does not see."""

    def use(x):
        return paddle.concat([x.reshape([-1]), x.reshape([-1])]).reshape([2, *x.shape])

    x = paddle.zeros(shape).astype(dtype)
    x.stop_gradient = dtype not in ("float32", "float64")
    check(use, x, graphs=1)


def test_a_result_is_changed_behind_its_graph():
    def use(x):
        y = (x * 2).sin()
        z = y * y
        y.zero_()
        return y, z

    check(use, paddle.arange(6, dtype="float32").reshape([2, 3]), graphs=1)
