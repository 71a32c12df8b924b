"""The table of operators says what the installed Paddle does."""

from __future__ import annotations

import paddle
import probe_ops
import pytest
from harness import translate

pytestmark = pytest.mark.default_python
# Functions that other versions of Paddle have.
ELSEWHERE = {"H", "mH", "select", "float_power", "float_power_"}


@pytest.mark.skipif(not paddle.__version__.startswith("3.3."), reason="the rows are tried on Paddle 3.3")
def test_no_row_is_wrong_or_names_nothing():
    rows = probe_ops.table()
    assert len(rows) > 450
    wrong = probe_ops.probe()
    assert {name for name, said in wrong.items() if "stale" in said[0]} <= ELSEWHERE
    assert {name: said for name, said in wrong.items() if name not in ELSEWHERE} == {}


def test_a_wrong_row_is_seen():
    one = probe_ops.Probe()
    assert list(one.problems(probe_ops.Row("frobnicate", ["View"])))
    assert list(one.problems(probe_ops.Row("exp", ["CheapView"])))
    assert list(one.problems(probe_ops.Row("exp", ["ForgetsResult"])))
    assert list(one.problems(probe_ops.Row("multiply", ["ForgetsArguments"])))
    assert list(one.problems(probe_ops.Row("mod", ["InPlace"])))
    assert list(one.problems(probe_ops.Row("clip", ['Number(1, "least", First)'])))
    assert list(one.problems(probe_ops.Row("exp", ["OneKernel"])))


NUMBERS = ("equal", "floor_divide", "floor_mod", "mod", "remainder")
DTYPES = ("add", "copysign", "divide", "floor_divide", "greater_than", "hypot", "less", "mod", "multiply", "subtract")


def changed(name, *others, **named):
    def change(x):
        y = x * 2
        getattr(y, f"{name}_")(*others, **named)
        return y

    return change


@pytest.mark.parametrize("name", NUMBERS)
def test_forms_in_place_that_take_no_numbers_raise_as_in_eager_mode(name):
    function = changed(name, 2)
    with pytest.raises(AttributeError):
        function(paddle.ones([3]))
    with pytest.raises(AttributeError):
        translate(function)(paddle.ones([3]))


@pytest.mark.parametrize("name", DTYPES)
def test_forms_in_place_do_not_promote(name):
    function = changed(name, paddle.ones([3], "int64"))
    with pytest.raises(TypeError):
        function(paddle.ones([3]))
    with pytest.raises(TypeError):
        translate(function)(paddle.ones([3]))
    same = changed(name, paddle.ones([3]) * 3)
    assert translate(same)(paddle.ones([3])).numpy().tolist() == same(paddle.ones([3])).numpy().tolist()


@pytest.mark.parametrize("name", ["clip", "clamp"])
def test_whole_numbers_clipped_in_place_without_a_largest(name):
    x = paddle.to_tensor([-1, 5])
    function = changed(name)
    assert translate(function)(x).numpy().tolist() == function(x).numpy().tolist() == [-(2**63)] * 2
    with pytest.raises(ValueError):
        translate(changed(name, min=0))(x)
    bounded = changed(name, max=3)
    assert translate(bounded)(x).numpy().tolist() == bounded(x).numpy().tolist() == [-2, 3]
