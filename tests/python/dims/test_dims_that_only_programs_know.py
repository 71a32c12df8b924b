"""What Python computes from the dims of rows that a mask keeps: others in each call, and no guard knows them."""

import paddle
import paddle_sot_rs as sot
import pytest
from programs_on_dims import PROGRAMS

pytestmark = pytest.mark.default_python

# Not captured whole, and why.
REFUSED = {
    **dict.fromkeys(
        ("split", "split by halves", "topk", "topk of half", "gather of columns", "gather of columns from the end"),
        "Paddle infers no dims of it",
    ),
    "eye": "a size of 0 is not looked at",
    "filtered_dims": "a list whose length a dim decides",
    **dict.fromkeys(("text_as_a_key", "key_of_a_dict", "set_of_dims"), "a text or a dim as a key"),
    "recursive": "a recursion that only the dim ends",
}


def answer(function, x, kept):
    try:
        result = function(x, kept)
    except sot.GraphBreakError:
        raise
    except (ValueError, TypeError, IndexError, ZeroDivisionError, AssertionError, RuntimeError) as raised:
        return type(raised)
    return result.dtype, result.shape, result.numpy().tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_kept_by_a_mask(name):
    program = PROGRAMS[name]

    def of_rows(x, kept):
        return program(x[kept])

    graphs = {"full_graph": True} if name not in REFUSED else {"capture_control_flow": True, "min_graph_size": 0}
    translated = sot.to_static(of_rows, **graphs)
    paddle.seed(3)
    for rows, columns in [(5, 3), (7, 3), (4, 4), (9, 3), (3, 3), (6, 4)] * 2:
        x, kept = paddle.randn([rows, columns]), paddle.rand([rows]) > 0.4
        wanted = answer(of_rows, x, kept)
        try:
            assert answer(translated, x, kept) == wanted
        except sot.GraphBreakError:
            # Where the function itself raises, it may be for another reason.
            assert isinstance(wanted, type)
    if name in REFUSED:
        x, kept = paddle.ones([3, 4]), paddle.ones([3], "bool")
        with pytest.raises(sot.GraphBreakError):
            sot.to_static(of_rows, full_graph=True)(x, kept)


def test_branches_on_how_many_there_are():
    def found(x):
        at = paddle.nonzero(x > 0)
        if at.shape[0] == 0:
            return x
        if len(at) > 2:
            return x * at.shape[0]
        return x.max() + paddle.zeros_like(x)

    translated = sot.to_static(found, full_graph=True)
    for values in ([1.0, -1.0, 2.0], [-1.0, -2.0, -3.0], [1.0, 2.0, 5.0], [7.0, -2.0, -9.0]):
        x = paddle.to_tensor(values)
        assert translated(x).tolist() == found(x).tolist()
    assert sot.stats(translated).translations == sot.stats(translated).graphs == 1
