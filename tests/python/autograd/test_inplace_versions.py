"""In-place versions of what graphs return: eager autograd refuses a backward whose saved tensors have another one."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import IDENTITY, translate


def _weight():
    weight = paddle.to_tensor([1.0, 2.0, 3.0])
    weight.stop_gradient = False
    return weight


@pytest.mark.parametrize("how", ["constant", "no_grad", "beside"])
def test_a_later_result_changed_in_place_leaves_what_was_saved(how):
    def function(x):
        if how == "beside":
            return x * 2.0, (x.detach() + 1).exp()
        return x * 2.0, (x + 1).exp()

    def step(function):
        weight, losses = _weight(), 0.0
        for number in range(4):
            x = paddle.full([3], float(number))
            x.stop_gradient = how == "constant"
            with paddle.set_grad_enabled(how != "no_grad"):
                outputs = function(x)
            target = outputs[1]
            target.scale_(0.5)
            losses = losses + (target * weight).sum()
        losses.backward()
        return weight.grad.numpy().tolist(), outputs[1].inplace_version

    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(3):
        assert step(function) == step(translated)
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], []), record


def test_kinds_of_results_have_versions_of_their_own():
    def function(x):
        return x * 2, x.sum(), x.astype("int64"), x > 1, x.astype("complex64"), paddle.zeros([0, 3]) + 1

    translated = sot.to_static(function, min_graph_size=0)
    for shape in ([3, 4], [2, 2], [3, 4]):
        x = paddle.ones(shape)
        for expected, actual in zip(function(x), translated(x), strict=True):
            assert actual.inplace_version == 0
            for name in ("shape", "dtype", "strides", "stop_gradient", "is_leaf", "persistable"):
                assert getattr(expected, name) == getattr(actual, name), name
            assert (expected.numpy() == actual.numpy()).all()
            if actual.dtype == paddle.float32:
                actual.add_(actual)
                assert actual.inplace_version == 1


@pytest.mark.parametrize("kept", ["nothing", "result", "view", "detached", "saved"])
@pytest.mark.parametrize("changed", [False, True])
def test_a_result_has_a_new_version_whatever_became_of_the_last_one(kept, changed):
    """The variable of the program is all that a result may share its version with, and nobody looks at that one."""

    def function(x):
        return x * 2.0

    def run(function):
        weight, said = _weight(), []
        for number in range(4):
            with paddle.no_grad():
                result = function(paddle.full([3], float(number)))
            said.append((result.inplace_version, result.numpy().tolist()))
            if changed:
                result.add_(result)
            other = {
                "nothing": lambda result: None,
                "result": lambda result: result,
                "view": lambda result: result.reshape([1, 3]),
                "detached": lambda result: result.detach(),
                "saved": lambda result: (result * weight).sum(),
            }[kept](result)
            del result
            with paddle.no_grad():
                later = function(paddle.ones([3]))
                said.append((later.inplace_version, later.numpy().tolist()))
                later.scale_(3.0)
            if kept == "saved":
                other.backward()
            elif other is not None:
                said.append((other.inplace_version, other.numpy().tolist()))
                (other * weight).sum().backward()
        return said, None if weight.grad is None else weight.grad.numpy().tolist()

    translated = sot.to_static(function, min_graph_size=0)
    for _ in range(2):
        assert run(function) == run(translated)
    record = sot.stats(translated)
    assert (record.graphs, record.graph_breaks, record.fallbacks) == (1, [], []), record


def add_in_place(tensor):
    sot.graph_break()
    return tensor.add_(paddle.ones_like(tensor))


# What eager mode makes without a tensor for the number keeps neither operand nor result.
QUOTIENTS = {
    "a number": lambda x: x * 3 / 2.5,
    "a whole number": lambda x: x * 3 / 1,
    "several": lambda x: x * 4 / 2 / 8,
    "a bool": lambda x: x * 3 / True,
    "a tensor": lambda x: x * 3 / paddle.full([2], 2.0),
    "a tensor of no dims": lambda x: x * 3 / paddle.full([], 2.5),
    "equal ones": lambda x: (x * 3 / 2.5) / paddle.full([], 2.5) / 2.5,
    "a tensor that needs a gradient": lambda x: x * 3 / x.sum(),
    "of a number": lambda x: 2.5 / (x * 3),
    "of an argument": lambda x: x / 4,
    "doubles": lambda x: (x * 3).astype("float64") / 4,
}


@pytest.mark.parametrize("where", ["behind", "inside", "behind a break"])
@pytest.mark.parametrize("kind", QUOTIENTS)
def test_quotients_that_are_changed_in_place(kind, where):
    quotient = QUOTIENTS[kind]
    changed = {
        "behind": quotient,
        "inside": lambda x: quotient(x).add_(paddle.to_tensor(1.0, quotient(x).dtype)),
        "behind a break": lambda x: add_in_place(quotient(x)) * 2.0,
    }[where]
    seen = []
    for function in (changed, translate(changed)):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        try:
            result = function(x)
            if where == "behind":
                result.add_(paddle.ones_like(result))
            (result * result).sum().backward()
            seen.append(x.grad.tolist())
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            seen.append("refused")
    assert seen[0] == seen[1]


def test_quotients_by_numbers_that_differ_between_calls():
    function = translate(lambda x, number: x * 3 / number)
    for number in (2.0, 3.0, 4.0, 5.0):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        result = function(x, number)
        result.add_(paddle.ones([2]))
        result.sum().backward()
        assert x.grad.tolist() == pytest.approx([3.0 / number] * 2)
    assert IDENTITY or sot.stats(function).translations <= 2
