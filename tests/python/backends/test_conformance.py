"""`testing.check_backend`: every backend of the package keeps the rules, and broken ones are found out."""

from pathlib import Path

import paddle
import paddle_sot_rs as sot
import pytest
from paddle_sot_rs import testing

pytestmark = pytest.mark.default_python

ROOT = Path(__file__).resolve().parents[3]


OURS = [
    ("paddle", {}),
    ("eager", {}),
    ("cinn", {"atol": 1e-5}),
    ("pylayer", {}),
    ("pylayer", {"options": {"around": "cinn"}, "atol": 1e-5}),
    ("onednn", {"rtol": 1e-4, "atol": 1e-5}),
]


def test_every_backend_of_the_package_is_a_row_of_ours():
    names = {name for name, _ in OURS}
    assert names == set(sot._core.list_backends())
    for page in ("docs/backends.md", "docs/user/backends.md"):
        text = (ROOT / page).read_text()
        assert [name for name in names if f"\n| `{name}`" not in text] == [], page


@pytest.mark.parametrize(("name", "given"), OURS)
def test_ours(name, given):
    report = testing.check_backend(name, **given)
    assert [case.name for case in report.cases] == list(testing.backend_cases())
    assert report.failures == ()
    assert f"{len(report.cases)} of {len(report.cases)} cases passed" in str(report)


def faithful(ir, metas):
    return ir


def turned(ir, metas):
    return lambda *tensors: list(ir(*tensors))[::-1]


def wide(ir, metas):
    return lambda *tensors: [result.astype("float64") for result in ir(*tensors)]


def detached(ir, metas):
    return lambda *tensors: [result.detach() for result in ir(*tensors)]


def differentiable(ir, metas):
    def run(*tensors):
        results = ir(*tensors)
        for result in results:
            result.stop_gradient = False
        return results

    return run


def remembering(ir, metas):
    known = {}

    def run(*tensors):
        return known.setdefault(tuple(map(id, tensors)), ir(*tensors))

    return run


def one_shape(ir, metas):
    def run(*tensors):
        if any(tensor.shape != meta[0] for tensor, meta in zip(tensors, metas)):
            return [paddle.zeros_like(result) for result in ir(*tensors)]
        return ir(*tensors)

    return run


def quiet(ir, metas):
    def run(*tensors):
        try:
            return ir(*tensors)
        except Exception:
            return [paddle.zeros([2])]

    return run


def refusing(ir, metas):
    raise NotImplementedError("no such operator")


def constant_seed(ir, metas):
    def run(*tensors):
        paddle.seed(3)
        return ir(*tensors)

    return run


kept = []


def leaking(ir, metas):
    def run(*tensors):
        kept.extend(tensors)
        return ir(*tensors)

    return run


lent = {}


def shared_buffer(ir, metas):
    """Inputs go through a buffer that calls of several threads share."""

    def run(*tensors):
        import time

        lent["inputs"] = tensors
        time.sleep(0.0005)
        return ir(*lent["inputs"])

    return run


@pytest.mark.parametrize(
    ("compiler", "cases"),
    [
        (faithful, []),
        (turned, ["gradients of one result", "several results", "dtypes"]),
        (wide, ["forward", "training", "dtypes"]),
        (detached, ["gradients", "gradients of some arguments", "second derivatives"]),
        (differentiable, ["forward", "dtypes", "gradients of some arguments"]),
        (remembering, ["no inputs"]),
        (one_shape, ["other shapes"]),
        (quiet, ["exceptions"]),
        (refusing, ["forward", "long graphs"]),
        (constant_seed, ["random numbers"]),
        (leaking, ["memory"]),
        (shared_buffer, ["threads"]),
    ],
)
def test_broken_ones_are_found_out(compiler, cases):
    sot.register_backend("broken", compiler)
    try:
        report = testing.check_backend("broken", raises=False)
    finally:
        sot.unregister_backend("broken")
        kept.clear()
    failed = [case.name for case in report.failures]
    assert set(cases) <= set(failed), report
    assert bool(failed) is bool(cases), report


def test_what_failed_is_raised_with_its_rule():
    sot.register_backend("broken", wide)
    try:
        with pytest.raises(testing.BackendCheckError, match="FAILED forward") as raised:
            testing.check_backend("broken", only=["forward", "no inputs"])
        (first, second) = raised.value.report.cases
        assert (
            first.error
            == "AssertionError: the result of the first call 0: dtype is paddle.float64, in eager mode paddle.float32"
        )
        assert "Traceback" in first.trace and not first.passed and not second.passed
        assert "rule: Results are those of eager mode" in str(raised.value)
        assert testing.check_backend("broken", only=["unknown options"]).failures == ()
    finally:
        sot.unregister_backend("broken")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"name": "tvm"}, "backend: unknown backend 'tvm'; known: .*eager, "),
        ({"name": "paddle", "only": ["forwards"]}, "only: unknown case 'forwards'; known: forward, other shapes"),
        ({"name": "paddle", "skip": ["x"]}, "skip: unknown case 'x'; known: forward"),
    ],
)
def test_wrong_names(given, text):
    with pytest.raises(ValueError, match=text):
        testing.check_backend(**given)


def test_the_process_is_as_before():
    found = []
    for skip in ([], list(testing.backend_cases())):
        paddle.seed(5)
        with paddle.no_grad():
            testing.check_backend("eager", skip=skip)
            assert not paddle.is_grad_enabled()
        found.append(paddle.rand([4]).tolist())
    assert found[0] == found[1]


def test_the_page_has_the_cases():
    page = (ROOT / "docs" / "adding" / "backend.md").read_text()
    for name, rule in testing.backend_cases().items():
        assert f"| {name} | {' '.join(rule.split())} |" in page
