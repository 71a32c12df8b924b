"""Keys of tensors that look like places: bools, ranges and tuples in tuples pick items out, as lists do."""

import paddle
import pytest
from harness import check, tensor

pytestmark = pytest.mark.default_python

KEYS = {
    "True": True,
    "False": False,
    "bool and place": (True, 0),
    "place and bool": (0, True),
    "bool behind an ellipsis": (..., True),
    "bool behind a new axis": (None, True),
    "range": range(2),
    "tuple in a tuple": ((0,),),
    "places in a tuple": ((0, 1),),
    "place and tuple": (0, (1,)),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_what_they_pick_is_no_view(key):
    def changes_what_is_picked(x):
        y = x + 0
        picked = y[key]
        picked.fill_(7.0)
        return y, picked, y * 2

    check(changes_what_is_picked, tensor(2, 3), breaks=None, repeat=3)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_what_they_pick_is_no_view_as_arguments(key):
    def changes_what_is_picked(x, key):
        y = x + 0
        y[key].fill_(7.0)
        return y

    check(changes_what_is_picked, tensor(2, 3), key, calls=[(tensor(2, 3), 0), (tensor(2, 3), key)], breaks=None)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_tensors_that_exist_are_written_at_them(key):
    buffer = paddle.zeros([2, 3])

    def writes(x):
        buffer[key] = 5.0
        return buffer * x, buffer + 1

    def reset():
        buffer.set_value(tensor(2, 3, seed=3))

    check(writes, tensor(2, 3), breaks=None, repeat=3, reset=reset, watch=lambda: buffer.clone())


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_tensors_of_the_function_are_written_at_them(key):
    def writes(x):
        y = x * 2
        row = y[0]
        y[key] = 5.0
        return y, row + y.sum()

    check(writes, tensor(2, 3), breaks=None, repeat=3)


def test_places_beside_them_stay_views():
    def fills(x):
        y = x + 0
        y[0].fill_(1.0)
        y[None, 1, ..., 2].zero_()
        return y

    check(fills, tensor(2, 3), graphs=1, breaks=0)


@pytest.mark.parametrize("holds", [True, False])
def test_masks_without_dims_pick(holds):
    def picks(x, mask):
        y = x + 0
        picked = y[mask]
        picked.fill_(7.0)
        return y, picked

    check(picks, tensor(2, 3), paddle.to_tensor(holds), breaks=None)
