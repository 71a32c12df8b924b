"""`paddle.shape(x)[i]` as a number of Python: it is the dim, no matter whether that is known."""

import paddle
import paddle_sot_rs as sot
import pytest
from harness import translate

FUNCTIONS = {
    "item": lambda x: x.reshape([paddle.shape(x)[0].item(), -1]) + 1,
    "int": lambda x: x * int(paddle.shape(x)[1]),
    "an index": lambda x: x[paddle.shape(x)[0].item() - 1] * 2,
    "the last": lambda x: x * paddle.shape(x)[-1].item(),
    "of a result": lambda x: x * x.shape[0] + int(paddle.shape(x * 2)[0]),
    "returned": lambda x: (x + 1, paddle.shape(x)[0].item()),
    "made": lambda x: paddle.full([paddle.shape(x)[0].item(), 2], 1.0) + x[:, :2],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_captured(name):
    function = FUNCTIONS[name]
    translated = translate(lambda x: function(x))
    for rows in (2, 3, 4, 5, 6):
        x = paddle.arange(4.0 * rows).reshape([rows, 4])
        assert str(translated(x)) == str(function(x))
    assert sot.stats(translated).graph_breaks == [] and sot.stats(translated).graphs <= 2


def test_a_branch_on_one_is_guarded():
    def branches(x):
        return x + 1 if paddle.shape(x)[0].item() > 3 else x - 1

    translated = translate(branches)
    for rows in (2, 3, 4, 5, 2):
        x = paddle.ones([rows, 2])
        assert translated(x).tolist() == branches(x).tolist()
    assert sot.stats(translated).graph_breaks == []


def test_items_of_other_tensors_are_not_meant():
    translated = translate(lambda x: x * int((paddle.shape(x) + 1)[0]))
    for rows in (2, 3, 4):
        assert translated(paddle.ones([rows, 2])).tolist() == (paddle.ones([rows, 2]) * (rows + 1)).tolist()
