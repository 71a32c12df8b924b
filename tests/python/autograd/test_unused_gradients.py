"""What `paddle.grad` answers for tensors that are not used, that stop gradients, or that are others to autograd."""

import numpy
import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python


def leaf(first):
    tensor = paddle.to_tensor([first, 2.0, 3.0])
    tensor.stop_gradient = False
    return tensor


FIXED = paddle.to_tensor([1.0, 2.0, 3.0])
MADE = {
    "an array": lambda x, array: paddle.to_tensor(array),
    "an array of this call": lambda x, array: paddle.to_tensor(array * 2),
    "an array of the function": lambda x, array: paddle.to_tensor(numpy.arange(3, dtype="float32")),
    "an array in another dtype": lambda x, array: paddle.to_tensor(array, dtype="float64"),
    "an array, assigned": lambda x, array: paddle.assign(array),
    "numbers of an array": lambda x, array: paddle.to_tensor([1.0, float(array[1])]),
    "a number": lambda x, array: paddle.to_tensor(float(array[1])),
    "a constant": lambda x, array: paddle.to_tensor(3.0),
    "numbers of a tensor": lambda x, array: paddle.to_tensor(x.numpy()),
    "another tensor": lambda x, array: paddle.to_tensor(FIXED),
    "zeros": lambda x, array: paddle.zeros([3]),
    "a product": lambda x, array: FIXED * 2,
    "a clone": lambda x, array: FIXED.clone(),
    "what is cut off": lambda x, array: x.detach(),
    "an argument": lambda x, array: FIXED,
}


def seen(value):
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    if paddle.is_tensor(value):
        return value.tolist(), value.dtype, value.stop_gradient
    return value


def outcomes(function, calls=3):
    found = []
    for call in range(calls):
        x, array = leaf(float(call)), numpy.array([3.0, 2.0 + call, 1.0], "float32")
        try:
            found.append(seen(function(x, array)))
        except (ValueError, SystemError, RuntimeError) as error:
            found.append(type(error))
        found.append(seen(x.grad))
    return found


@pytest.mark.parametrize("least", [0, 10])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("made", MADE)
def test_a_tensor_that_stops_gradients(made, allowed, used, least):
    make = MADE[made]

    def function(x, array):
        tensor = make(x, array)
        loss = (x * x).sum()
        if used:
            loss = loss + tensor.astype("float32").sum()
        return paddle.grad(loss, [x, tensor], allow_unused=allowed)

    assert outcomes(translate(function, min_graph_size=least)) == outcomes(function)


@pytest.mark.parametrize("made", [name for name in MADE if name != "an argument"])
def test_a_tensor_that_takes_gradients_from_now_on(made):
    make = MADE[made]

    def function(x, array):
        tensor = make(x, array)
        tensor.stop_gradient = False
        loss = (x * x).sum() + (tensor.astype("float32") * 2).sum()
        return paddle.grad(loss, [tensor, x])

    assert outcomes(translate(function)) == outcomes(function)


def stopped_and_begun(x, array):
    y = x * 2
    y.stop_gradient = True
    y.stop_gradient = False
    return (x * x).sum() + (y * 2).sum()


def used_while_it_was_stopped(x, array):
    y = x * 2
    y.stop_gradient = True
    z = y * 2
    y.stop_gradient = False
    return (z + y * x).sum()


def changed_behind_a_stop(x, array):
    y = x.clone()
    z = y * x
    y.stop_gradient = True
    y[0] = 2.0
    return z.sum() + y.sum()


def begun_and_stopped_and_begun(x, array):
    y = x.detach()
    y.stop_gradient = False
    y.stop_gradient = True
    y.stop_gradient = False
    return (y * x).sum()


@pytest.mark.parametrize("made", ["an array", "an array of this call", "numbers of an array", "another tensor"])
def test_a_node_of_autograd(made):
    make = MADE[made]

    def function(x, array):
        return make(x, array).grad_fn is None

    assert outcomes(translate(lambda x, array: function(x, array), min_graph_size=10)) == outcomes(function)


STOPS = [stopped_and_begun, used_while_it_was_stopped, changed_behind_a_stop, begun_and_stopped_and_begun]


@pytest.mark.parametrize("function", STOPS, ids=lambda it: it.__name__)
def test_a_tensor_that_was_stopped_goes_on_with_its_history(function):
    def run(x, array):
        loss = function(x, array)
        loss.backward()
        return loss

    translated = translate(lambda x, array: function(x, array))

    def run_translated(x, array):
        loss = translated(x, array)
        loss.backward()
        return loss

    assert outcomes(run_translated) == outcomes(run)
    assert len(sot.stats(translated).graph_breaks) > 0


WHOLE = {
    "a slice": lambda x: x[:],
    "slices": lambda x: x[0:3],
    "an ellipsis": lambda x: x[...],
    "nothing": lambda x: x[()],
    "a slice that ends behind": lambda x: x[-9:9],
    "dims that stay": lambda x: x.unflatten(0, [3]),
    "a shape that stays": lambda x: x.reshape([3]),
    "a part": lambda x: x[:2],
    "another shape": lambda x: x.reshape([3, 1]),
}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("inputs", [0, 1, 2])
@pytest.mark.parametrize("whole", WHOLE)
def test_all_of_a_tensor_is_that_tensor(whole, inputs, made):
    take = WHOLE[whole]

    def function(x, array):
        if made:
            x = x * 1.5
        y = take(x)
        loss = (y * y).sum() + (x * 3).sum()
        return paddle.grad(loss, [[y], [x], [x, y]][inputs])

    assert outcomes(translate(function)) == outcomes(function)


@pytest.mark.parametrize("least", [0, 10])
@pytest.mark.parametrize("whole", WHOLE)
def test_all_of_a_tensor_has_a_gradient_without_gradients(whole, least):
    take = WHOLE[whole]

    def function(x, array):
        z = x * 2
        with paddle.no_grad():
            y = take(z)[...]
            w = y * 3
        return y.stop_gradient, (y * z[0]).sum() + w.sum()

    translated = translate(function, min_graph_size=least)

    def gone_back(called):
        def run(x, array):
            stops, loss = called(x, array)
            loss.backward()
            return stops, loss

        return run

    assert outcomes(gone_back(translated)) == outcomes(gone_back(function))


def test_all_of_a_tensor_without_a_gradient_is_captured():
    def function(x):
        with paddle.no_grad():
            y = x[:]
        return (y * 2).sum()

    translated = translate(function)
    for _ in range(2):
        assert translated(FIXED).item() == function(FIXED).item()
    assert sot.stats(translated).graph_breaks == []


def test_all_of_a_tensor_that_was_stopped_is_no_leaf():
    def function(x, array):
        y = x * 2
        y.stop_gradient = True
        z = y[:]
        return z.is_leaf, z, (z * x).sum()

    translated = translate(lambda x, array: function(x, array))

    def looked_at(called):
        def run(x, array):
            known, z, loss = called(x, array)
            loss.backward()
            z.stop_gradient = False
            z.sum().backward()
            return known, z.is_leaf, loss

        return run

    assert outcomes(looked_at(translated)) == outcomes(looked_at(function))
