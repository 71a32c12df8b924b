"""Backends that are Python callables and do not keep their word: the function falls back, and the reason names them."""

import paddle
import paddle_sot_rs as sot
import pytest

NAME = "unreliable"


@pytest.fixture
def backend():
    """Registers a callable under one name for all tests."""

    def register(compiler):
        if NAME in sot.list_backends():
            sot.swap_backend(NAME, compiler)
        else:
            sot.register_backend(NAME)(compiler)
        return sot.to_static(lambda x: x * 2 + 1, backend=NAME, min_graph_size=0)

    return register


def returns(make):
    return lambda ir, metas: lambda *tensors: make(ir(*tensors))


def refuses(ir, metas):
    raise ValueError("no such graphs")


CASES = {
    "a number": (returns(lambda made: (5,)), 'the backend "unreliable" returned int for a tensor'),
    # It has as many rows as the graph has outputs.
    "the tensor": (returns(lambda made: made[0]), 'the backend "unreliable" returned Tensor instead of a tuple'),
    "None": (returns(lambda made: None), 'the backend "unreliable" returned NoneType instead of a tuple'),
    "nothing": (returns(lambda made: ()), 'the backend "unreliable" returned 0 tensors for a graph with 1 outputs'),
    "an array": (returns(lambda made: [made[0].numpy()]), 'the backend "unreliable" returned ndarray for a tensor'),
    "no graph": (lambda ir, metas: None, 'the backend "unreliable" did not return a callable'),
    "an error": (refuses, 'the backend "unreliable" raised ValueError: no such graphs'),
}


@pytest.mark.parametrize("name", CASES)
def test_the_function_falls_back(name, backend):
    compiler, reason = CASES[name]
    static = backend(compiler)
    assert static(paddle.ones([1])).tolist() == [3.0]
    assert reason in sot.stats(static).fallbacks[0].message


def test_lists_and_subclasses_are_good_answers(backend):
    static = backend(returns(list))
    assert static(paddle.ones([1])).tolist() == [3.0]
    record = sot.stats(static)
    assert (record.graphs, record.fallbacks) == (1, [])
