"""Sparse tensors are left to the interpreter: they share storage with what they are made of."""

import paddle
import pytest
from harness import Programs, check

# What is done with a graph does not depend on the version of Python.
pytestmark = pytest.mark.default_python

sparse = paddle.sparse
INDICES = paddle.to_tensor([[0, 1, 2], [1, 2, 0]])
program = Programs()


def values():
    return paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)


@program(graphs=1, breaks=3)
def storage_that_is_shared(v):
    return sparse.sparse_coo_tensor(INDICES, v, [3, 3]).values() * 2 + v * 3


@program(graphs=2, breaks=4)
def storage_of_a_tensor_of_the_frame(v):
    w = v * 1
    return sparse.reshape(sparse.sparse_coo_tensor(INDICES, w, [3, 3]), [9]).values() * 2 + w * 3


@program(graphs=1, breaks=3)
def another_dtype(v):
    return sparse.sparse_coo_tensor(INDICES, v, [3, 3], dtype="float64").values() * 2


@program(graphs=1, breaks=4)
def gradients_of_its_own(v):
    made = sparse.sparse_coo_tensor(INDICES, v, [3, 3], stop_gradient=False)
    return sparse.nn.functional.relu(made).values() * 2


@program(breaks=1)
def a_shape_that_does_not_fit(v):
    return sparse.sparse_coo_tensor(INDICES, v, [3, 3, 1]).values() * 2


@program(graphs=1, breaks=2)
def a_product_without_a_kernel(v):
    try:
        return sparse.mv(sparse.sparse_coo_tensor(INDICES, v, [3, 3]), v)
    except NotImplementedError:
        return v * 7


@program(graphs=2, breaks=3)
def of_a_dense_tensor(v):
    return v.detach().reshape([1, 3]).to_sparse_csr().values() * 2 + v


@program(graphs=1, breaks=4)
def by_the_operation_itself(v):
    made = sparse.sparse_coo_tensor(INDICES, v, [3, 3])
    return paddle._C_ops.sparse_sin(made).values() * 2


@pytest.mark.parametrize(("function", "args", "expected"), program)
def test_equals_eager(function, args, expected):
    check(function, values(), repeat=3, fallbacks=None, **expected)
