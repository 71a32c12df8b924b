"""Tensor arrays of `paddle.tensor`: lists in eager mode, and so they are in translated code."""

import paddle
from harness import check, tensor

X = tensor(2, 3, grad=True)


def test_an_array_is_a_list():
    def function(x):
        array = paddle.tensor.create_array("float32")
        array.append(x * 2)
        array.append(x * 3)
        return array, paddle.tensor.array_length(array), len(array), type(array)

    check(function, X, graphs=1, breaks=0)


def test_written_and_read_at_a_place():
    """Places are tensors whose numbers eager mode reads."""

    def function(x):
        array = paddle.tensor.create_array("float32", [x])
        at = paddle.zeros([1], "int64")
        paddle.tensor.array_write(x * 2, at + 1, array)
        paddle.tensor.array_write(x * 3, at, array)
        return paddle.tensor.array_read(array, at), paddle.tensor.array_length(array), array

    check(function, X, fallbacks=None)


def test_an_array_of_the_caller():
    def function(x, array):
        paddle.tensor.array_write(x * 2, paddle.zeros([1], "int64"), array)
        return x * 3, len(array)

    check(function, X, [], fallbacks=None)
