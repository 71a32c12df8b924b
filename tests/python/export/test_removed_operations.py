"""What an export removes from a program is not asked for anything any more: its memory is gone."""

import sys

import paddle
import paddle_sot_rs as sot
import pytest
from paddle.static import InputSpec

pytestmark = pytest.mark.default_python


def module(name):
    """A module of the engine's, imported by itself: it keeps the builtins that it was made with."""
    sot.to_static(lambda x: x + 1, min_graph_size=0)(paddle.ones([1]))
    return sys.modules[f"paddle_sot_rs._paddle.{name}"]


def grown(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(x[i] * i)
    return paddle.stack(rows)


def chosen(x):
    if x.shape[0] > 3:
        return x[2:] * 2
    return x[:1]


@pytest.mark.parametrize("function", [grown, chosen])
def test_operations_that_are_made_in_doubles(function, monkeypatch, tmp_path):
    met, predictors = [], module("predictors")
    compute, blocks_of = predictors._compute_in_doubles, predictors.blocks_of

    def note_removed(op, outputs):
        compute(op, outputs)
        met.append(op)

    def note_asked(op):
        met.append(op)
        return blocks_of(op)

    monkeypatch.setattr(predictors, "_compute_in_doubles", note_removed)
    monkeypatch.setattr(predictors, "blocks_of", note_asked)
    sot.save(function, str(tmp_path / "m"), input_spec=[InputSpec([None, 4], "float32", "x")])
    # Later on, the address may be that of another operation.
    assert len(met) > 1
    assert not any(one is other for one, other in zip(met, met[1:], strict=False))
    loaded = paddle.jit.load(str(tmp_path / "m"))
    for rows in (1, 2, 4, 6):
        x = paddle.randn([rows, 4])
        assert loaded(x).tolist() == function(x).tolist()


class Removed(RuntimeError):
    pass


class Block:
    def __init__(self):
        self.ops = []

    def remove_op(self, op):
        op.block = None


class Operation:
    """An operation that knows whether it is there."""

    def __init__(self, block, *operands):
        self.block, self.operands, self.users = block, operands, []
        for operand in operands:
            operand.users.append(self)

    def _there(self):
        if self.block is None:
            raise Removed
        return self

    def id(self):
        return id(self._there())

    def operands_source(self):
        return self._there().operands

    def num_operands(self):
        return len(self._there().operands)

    def results(self):
        return [self._there()]

    def get_parent_block(self):
        return self._there().block

    # As a Value.
    def initialized(self):
        return True

    def get_defining_op(self):
        return self._there()

    def use_empty(self):
        return all(user.block is None for user in self.users)


@pytest.mark.parametrize("turned", [False, True])
def test_operations_that_only_others_use(turned):
    block = Block()
    source = Operation(block)
    first = Operation(block, source)
    second = Operation(block, first)
    last = Operation(block, *((second, first) if turned else (first, second)))
    module("export")._remove(last)
    assert [op.block for op in (first, second, last)] == [None] * 3
    assert source.block is block
