"""Nested graphs inside of `cond`, `while_loop` and `static_pylayer`."""

from paddle_sot_rs._paddle.region.block import Block, Constant, Made, Ref, fresh
from paddle_sot_rs._paddle.region.branch import If
from paddle_sot_rs._paddle.region.loop import While
from paddle_sot_rs._paddle.region.recompute import Recompute

__all__ = ["Block", "Constant", "If", "Made", "Recompute", "Ref", "While", "fresh"]
