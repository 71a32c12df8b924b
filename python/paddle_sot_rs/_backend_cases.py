"""The cases of `testing.check_backend`. The docstring of each is the rule that it checks."""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle
from paddle import nn

from . import _core
from .api import to_static
from .report import static_function, stats

CASES: dict[str, Callable[[Check], None]] = {}


def _case(function: Callable[[Check], None]) -> Callable[[Check], None]:
    CASES[function.__name__.removeprefix("_").replace("_", " ")] = function
    return function


@contextlib.contextmanager
def untouched_process() -> Iterator[None]:
    """Puts back the random state, and whether gradients are on."""
    state = paddle.get_rng_state()
    try:
        with paddle.enable_grad():
            yield
    finally:
        paddle.set_rng_state(state)


class Check:
    """One backend and how closely it is compared with eager mode."""

    def __init__(self, name: str, options: dict[str, Any] | None, rtol: float, atol: float) -> None:
        self.name, self.options, self.rtol, self.atol = name, options, rtol, atol

    def translate(self, target: Any, **settings: Any) -> Any:
        """The target under the backend, however small it is."""
        # Of sizes that come once, too.
        settings = dict(settings, min_graph_size=0, compile_at_call=1)
        return to_static(target, backend=self.name, options=self.options, **settings)

    def compiled(self, static: Any) -> None:
        """Fails unless the backend compiled all graphs, and they ran."""
        found = stats(static)
        assert found.graphs >= 1, f"nothing was compiled: {_first(found.fallbacks or found.graph_breaks)}"
        assert not found.fallbacks, f"a call ran in the interpreter: {_first(found.fallbacks)}"
        left = [graph for graph in static_function(static).graphs() if graph.backend == "eager"]
        assert self.name == "eager" or not left, f"{len(left)} graphs run call by call: the backend gave them up"

    def same(self, got: Any, want: Any, what: str = "the result") -> None:
        """Fails unless two results are alike."""
        if isinstance(want, paddle.Tensor):
            assert isinstance(got, paddle.Tensor), f"{what}: expected a Tensor, got a {type(got).__name__}"
            for name in ("dtype", "shape", "stop_gradient"):
                mine, plain = getattr(got, name), getattr(want, name)
                assert mine == plain, f"{what}: {name} is {mine}, in eager mode {plain}"
            values = [
                tensor.astype("float32").numpy() if _is_small(tensor) else tensor.numpy() for tensor in (got, want)
            ]
            rtol, atol = (1e-2, 1e-2) if _is_small(want) else (self.rtol, self.atol)
            np.testing.assert_allclose(values[0], values[1], rtol, atol, err_msg=what)
        elif isinstance(want, dict):
            assert list(got) == list(want), f"{what}: keys are {list(got)}, in eager mode {list(want)}"
            for key in want:
                self.same(got[key], want[key], f"{what}[{key!r}]")
        elif isinstance(want, list | tuple):
            assert type(got) is type(want) and len(got) == len(want), f"{what}: {got!r}, in eager mode {want!r}"
            for at, (mine, plain) in enumerate(zip(got, want, strict=True)):
                self.same(mine, plain, f"{what}[{at}]")
        else:
            assert got == want, f"{what}: {got!r}, in eager mode {want!r}"

    def runs_like(self, function: Callable[..., Any], *calls: tuple[Any, ...], **settings: Any) -> Any:
        """Makes calls, each twice, under the backend and in eager mode; the answer is the translated function."""
        static = self.translate(function, **settings)
        for number, args in enumerate(calls):
            for turn in ("first", "second"):
                self.same(static(*args), function(*args), f"the result of the {turn} call {number}")
        self.compiled(static)
        return static


def _first(reasons: Any) -> str:
    return next((f"{reason.code} line {reason.line}: {reason.message}" for reason in reasons), "nothing to compile")


def _is_small(tensor: Any) -> bool:
    return tensor.dtype in (paddle.float16, paddle.bfloat16)


def _range(*shape: int, dtype: str = "float32") -> Any:
    size = int(np.prod(shape))
    return paddle.to_tensor((np.arange(size) % 7 - 3).reshape(shape).astype(dtype) / np.asarray(4, dtype))


def _trainable(*shape: int) -> Any:
    tensor = _range(*shape)
    tensor.stop_gradient = False
    return tensor


class _Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.norm = nn.BatchNorm1D(8)

    def forward(self, x: Any) -> Any:
        return self.second(nn.functional.relu(self.norm(self.first(x))))


@_case
def _forward(check: Check) -> None:
    """Results are those of eager mode: values, dtypes, shapes and `stop_gradient`."""
    check.runs_like(lambda x, y: (x * y + 1).exp().sum(axis=1), (_range(3, 4), _range(4)))
    net = _Net()
    net.eval()
    check.runs_like(lambda x: net(x), (_range(5, 4),))
    conv = nn.Conv2D(2, 3, 3, padding=1)
    check.runs_like(lambda x: nn.functional.max_pool2d(conv(x), 2), (_range(1, 2, 6, 6),))


@_case
def _other_shapes(check: Check) -> None:
    """A graph is compiled for what it is called with: other sizes, one and zero included, are right too."""
    sizes = (3, 5, 1, 8, 0)
    check.runs_like(lambda x: (x - x.mean(axis=1, keepdim=True)) * x.shape[0], *((_range(size, 4),) for size in sizes))


@_case
def _gradients(check: Check) -> None:
    """Gradients of arguments and parameters are those of eager mode, and add up over calls."""

    def function(x: Any, y: Any) -> Any:
        return (x.matmul(y).tanh() * x.sum()).mean()

    static = check.translate(function)
    found = []
    for run in (static, function):
        x, y = _trainable(3, 4), _trainable(4, 3)
        for _ in range(2):
            run(x, y).backward()
        found.append([x.grad, y.grad])
    check.same(found[0], found[1], "the gradients")
    check.compiled(static)


@_case
def _gradients_of_some_arguments(check: Check) -> None:
    """What needs no gradient gets none, and what is not used has `None`."""

    def function(x: Any, y: Any, z: Any) -> Any:
        return x * y + 0 * z.detach()

    static = check.translate(function)
    for frozen in ((), (0,), (1,), (0, 1, 2)):
        found = []
        for run in (static, function):
            given = [_trainable(3) for _ in range(3)]
            for at in frozen:
                given[at].stop_gradient = True
            result = run(*given)
            if not result.stop_gradient:
                result.sum().backward()
            found.append([result.stop_gradient, *(tensor.grad for tensor in given)])
        check.same(found[0], found[1], f"the gradients with {list(frozen)} frozen")
    with paddle.no_grad():
        x = _trainable(3)
        check.same(static(x, x, x), function(x, x, x), "the result without gradients")
    check.compiled(static)


@_case
def _gradients_of_one_result(check: Check) -> None:
    """Each of several results can go backward by itself, and one after the other."""

    def function(x: Any) -> Any:
        return (x * 2).exp(), x.sum(), (x * x).sin()

    static = check.translate(function)
    for chosen in ((0,), (2,), (0, 2), (2, 1)):
        found = []
        for run in (static, function):
            x = _trainable(4)
            results = run(x)
            for at in chosen:
                results[at].sum().backward(retain_graph=True)
            found.append(x.grad)
        check.same(found[0], found[1], f"the gradient of results {list(chosen)}")
    check.compiled(static)


@_case
def _second_derivatives(check: Check) -> None:
    """Gradients have gradients where eager mode's have."""
    static = check.translate(lambda x: (x * x * x).sum())
    found = []
    for run in (static, static.dygraph_function):
        x = _trainable(3)
        (first,) = paddle.grad(run(x), x, create_graph=True)
        found.append([first, paddle.grad(first.sum(), x)[0]])
    check.same(found[0], found[1], "the derivatives")
    check.compiled(static)


@_case
def _training(check: Check) -> None:
    """A network trains as in eager mode: weights, running statistics, and weights that were changed from outside."""
    nets = [_Net()]
    nets.append(copy.deepcopy(nets[0]))
    static = check.translate(nets[0])
    for net in nets:
        net.train()
        optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())
        for step in range(3):
            net(_range(6, 4) + step).square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
        net.first.weight.set_value(net.first.weight * 0.5)
        net(_range(6, 4))
    states = [net.state_dict() for net in nets]
    check.same(dict(states[0]), dict(states[1]), "the state")
    for net in nets:
        net.eval()
    check.same(nets[0](_range(6, 4)), nets[1](_range(6, 4)), "the result after training")
    check.compiled(static)


@_case
def _several_results(check: Check) -> None:
    """Results come in order, in the user's containers, and each as often as it is returned."""

    def function(x: Any) -> Any:
        y = x + 1
        return {"b": y, "a": [x * 2, None, 3]}, (y, x)

    static = check.runs_like(function, (_range(3),))
    x = _range(3)
    named, (y, same) = static(x)
    assert named["b"] is y, "one tensor that is returned twice became two"
    assert same is x, "an argument that is returned became another tensor"


@_case
def _constants(check: Check) -> None:
    """Numbers, and tensors from outside, are what they are at the time of the call."""
    outside, number = _range(4), 2.5
    static = check.runs_like(lambda x: x * number + outside - paddle.full([4], 3.0), (_range(4),))
    outside.set_value(_range(4) + 1)
    check.same(static(_range(4)), static.dygraph_function(_range(4)), "the result after a tensor has changed")


@_case
def _no_inputs(check: Check) -> None:
    """A graph may have no inputs; its results are new in each call."""

    def function() -> Any:
        return paddle.arange(6).reshape([2, 3]) * 2 + 1

    static = check.runs_like(function, ())
    static()[0] = 7
    check.same(static(), function(), "the result after one before was changed")


@_case
def _dtypes(check: Check) -> None:
    """Each dtype is computed with as in eager mode, and dtypes are mixed as there."""
    for dtype in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool", "complex64"):
        plain = paddle.to_tensor([0, 1, 1, 0], dtype="int32").astype(dtype)
        small = dtype in ("float16", "bfloat16")

        def function(x: Any, wide: bool = small) -> Any:
            return (x.astype("float32") if wide else x).cast("float64") + 1, x.astype("int64"), x.reshape([2, 2])

        if dtype == "complex64":
            check.runs_like(lambda x: (x * x, x.conj()), (plain,))
        else:
            check.runs_like(function, (plain,))
    check.runs_like(lambda x: (x * 2 + 0.5, x / 2, x == 1), (paddle.to_tensor([1, 2], dtype="int64"),))


@_case
def _special_values(check: Check) -> None:
    """Infinities, NaN and negative zeros are kept."""
    x = paddle.to_tensor([np.inf, -np.inf, np.nan, -0.0, 0.0])
    static = check.runs_like(lambda x: (-x, x + 1, paddle.maximum(x, -x), x.abs(), x * x.sign()), (x,))
    for at, (got, want) in enumerate(zip(static(x), static.dygraph_function(x), strict=True)):
        signs = [np.signbit(value.numpy()[3:]).tolist() for value in (got, want)]
        assert signs[0] == signs[1], f"the signs of zeros of result {at} are {signs[0]}, in eager mode {signs[1]}"


@_case
def _results_belong_to_the_caller(check: Check) -> None:
    """What the caller writes into a result changes neither arguments, nor other results, nor later calls."""

    def function(x: Any) -> Any:
        return paddle.assign(x), x * 1.0, x.reshape([-1]) + 0, paddle.zeros([3])

    static = check.runs_like(function, (_range(3, 1),))
    for at in range(4):
        x = _range(3, 1)
        before = x.numpy()
        results = static(x)
        others = [result.numpy() for result in results]
        results[at].fill_(9.0)
        assert np.array_equal(x.numpy(), before), f"result {at} shares storage with an argument"
        for other, (result, plain) in enumerate(zip(results, others, strict=True)):
            assert other == at or np.array_equal(result.numpy(), plain), f"results {at} and {other} share storage"
        check.same(static(_range(3, 1)), function(_range(3, 1)), f"the results after result {at} was changed")


@_case
def _views(check: Check) -> None:
    """A view that leaves the function shares storage with what it is of, as in eager mode."""

    def function(x: Any) -> Any:
        y = x + 1
        return y, y[0]

    found = []
    for run in (check.translate(function), function):
        y, first = run(_range(2, 3))
        first.fill_(5.0)
        found.append([y, first])
    check.same(found[0], found[1], "the results after a view was changed")


@_case
def _changes_in_place(check: Check) -> None:
    """An argument that the function changes in place is changed once in each call."""

    def function(x: Any) -> Any:
        x.add_(paddle.ones([3]))
        return x * 2

    static = check.translate(function)
    found = []
    for run in (static, function):
        x = _range(3)
        results = [run(x) for _ in range(3)]
        found.append([x, *results])
    check.same(found[0], found[1], "the argument and the results")


@_case
def _random_numbers(check: Check) -> None:
    """Random numbers come from Paddle's generator: the same ones as in eager mode, and new ones in each call."""

    def function(x: Any) -> Any:
        return nn.functional.dropout(x, 0.5) + paddle.rand([8])

    static, found = check.translate(function), []
    static(_range(8))
    for run in (static, function):
        paddle.seed(7)
        found.append([run(_range(8)), run(_range(8))])
    check.same(found[0], found[1], "the results after one seed")
    assert not np.array_equal(found[0][0].numpy(), found[0][1].numpy()), "two calls had the same random numbers"


@_case
def _exceptions(check: Check) -> None:
    """What eager mode raises is raised, of the same type, and later calls are right."""

    def function(x: Any, index: Any) -> Any:
        return paddle.gather(x * 2, index) + 1

    static = check.translate(function)
    good, wrong = paddle.to_tensor([0, 2]), paddle.to_tensor([0, 99])
    check.same(static(_range(4), good), function(_range(4), good))
    for _ in range(2):
        raised: list[type | None] = []
        for run in (static, function):
            try:
                run(_range(4), wrong)
                raised.append(None)
            except Exception as error:  # noqa: BLE001 - the type is what is compared
                raised.append(type(error))
        assert raised[0] is raised[1], f"{_named(raised[0])} was raised, in eager mode {_named(raised[1])}"
        check.same(static(_range(4), good), function(_range(4), good), "the result after an exception")


def _named(kind: type | None) -> str:
    return "nothing" if kind is None else kind.__name__


@_case
def _control_flow(check: Check) -> None:
    """Graphs with captured branches and loops, which are graphs inside of a statement, are compiled."""

    def function(x: Any, n: Any) -> Any:
        while x.sum() < n:
            x = x * 2 if x.max() > 2 else x + 1
        return x

    calls = [(paddle.to_tensor([0.5, value]), paddle.to_tensor(20.0)) for value in (0.25, 3.0, 30.0)]
    static = check.runs_like(function, *calls, capture_control_flow=True)
    assert not stats(static).graph_breaks, f"the graph breaks: {_first(stats(static).graph_breaks)}"


@_case
def _long_graphs(check: Check) -> None:
    """A graph of many hundred operations is compiled."""

    def function(x: Any) -> Any:
        for step in range(300):
            x = x * 0.99 + step % 3
        return x

    check.runs_like(function, (_range(4),))


@_case
def _unknown_options(check: Check) -> None:
    """An option that the backend does not have is an error when it is given."""
    options = {**(check.options or {}), "no_such_option": 1}
    try:
        to_static(lambda x: x, backend=check.name, options=options)
    except (TypeError, ValueError, KeyError):
        return
    raise AssertionError("options={'no_such_option': 1} was taken")


@_case
def _hot_swap(check: Check) -> None:
    """When the backend is replaced, functions compile anew; graphs from before stay right until they are over."""

    def function(x: Any) -> Any:
        return (x * 3).tanh()

    static = check.translate(function)
    x, y = _trainable(4), _trainable(4)
    before = static(x)
    _core.renew_backend(check.name)
    assert stats(static).translations == 1
    check.same(static(y), function(y), "the result after the swap")
    assert stats(static).translations == 2, "a swap did not compile the function anew"
    before.sum().backward()
    want = _trainable(4)
    function(want).sum().backward()
    check.same(x.grad, want.grad, "the gradient of a result from before the swap")


@_case
def _threads(check: Check) -> None:
    """One graph runs in many threads at once, forward and backward, while the backend is replaced."""

    def function(x: Any) -> Any:
        return (x * 2 + 1).exp().sum(axis=0)

    static, errors = check.translate(function), []

    def work(number: int) -> None:
        try:
            for turn in range(12):
                found = []
                for run in (static, function):
                    x = _trainable(3, 4)
                    with paddle.no_grad():
                        x.scale_(0.1 * (number + turn))
                    x.stop_gradient = False
                    result = run(x)
                    result.sum().backward()
                    found.append([result, x.grad])
                check.same(found[0], found[1], f"thread {number}, call {turn}: the result and the gradient")
        except Exception as error:  # noqa: BLE001 - the thread must end
            errors.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    _core.renew_backend(check.name)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@_case
def _memory(check: Check) -> None:
    """A function that is dropped is gone, with its graphs and the parameters in them."""
    net = _Net()
    net.eval()
    check.translate(net)(_range(2, 4)).sum().backward()
    gone = weakref.ref(net.first.weight)
    del net
    for _ in range(3):
        gc.collect()
    assert gone() is None, "a parameter is still there after its network was dropped"
