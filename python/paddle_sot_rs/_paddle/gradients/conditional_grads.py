"""Gradients, and the conditions under which they arrive.

Eager mode goes backward along the way that was taken, from the results that somebody went backward from. A program has
all ways and all results in it, and computes with zeros where nothing arrives. What comes of zeros need not be zero: an
infinite slope makes a NaN of them, a gradient that the user wrote makes what it likes. So what a value gets under one
condition is taken away, where that does not hold, before it meets what arrives under another one.
"""

from paddle import _C_ops
from paddle.base import core

# As in `grad_reachability.py`.
NEVER, ALWAYS = 0, 1


class Arrivals:
    """What has arrived at the values of one pass."""

    def __init__(self, conditions):
        self.conditions = conditions
        # For each value: its gradients by the condition under which they arrive, those by None that
        # are zeros where nothing does; and the condition that any has arrived.
        self.parts = {}
        self.whens = {}
        self.written = {}

    def add(self, value, gradient, when, is_clean=False):
        """A gradient arrives; it is zeros where nothing does, if it is clean."""
        parts = self.parts.setdefault(value.id, {})
        key = None if is_clean else when
        # As eager mode adds them: `add_n` begins with zeros, and two `-0.0` would be `0.0`. And at
        # once: else the gradients of a weight that was used a hundred times would all be there at
        # the end.
        before = parts.get(key)
        parts[key] = gradient if before is None else self.plus(before, gradient)
        self.whens[value.id] = self.conditions.either(self.whens.get(value.id, NEVER), when)

    @staticmethod
    def plus(before, gradient):
        return _C_ops.add(before, gradient)

    def has(self, value):
        """Whether any has arrived, under some condition."""
        return value.id in self.parts

    def when(self, value):
        """The condition under which any arrives."""
        return self.whens.get(value.id, NEVER) if value.initialized() else NEVER

    def _sum(self, value):
        """What arrives, of no meaning where nothing does; None where that is known."""
        parts = self.parts.get(value.id) if value.initialized() else None
        if parts is None:
            return None
        if len(parts) > 1:
            when, total = self.whens[value.id], None
            for part, gradient in parts.items():
                if part is not None and part != when:
                    gradient = self._where(part, gradient)
                total = gradient if total is None else _C_ops.add(total, gradient)
            parts = self.parts[value.id] = {when: total}
        return next(iter(parts.values()))

    def under(self, value, when):
        """What arrives, zeros where nothing does but the condition holds."""
        gradient = self._sum(value)
        if gradient is None or None in self.parts[value.id] or self.whens[value.id] == when:
            return gradient
        clean = self._where(self.whens[value.id], gradient)
        self.parts[value.id] = {None: clean}
        return clean

    def flag(self, when):
        """The same condition for blocks in this one: a bool that the program hands on to them."""
        if when <= ALWAYS:
            return when
        return self.conditions.holds(_C_ops.assign(self.conditions.scalar(when, self.written)))

    def _where(self, when, gradient):
        holds = self.conditions.scalar(when, self.written)
        dims = list(gradient.shape)
        if any(dim < 0 for dim in dims):
            zero = _C_ops.full([], 0.0, gradient.dtype, core.Place())
            return _C_ops.masked_fill(gradient, _C_ops.logical_not(holds), zero)
        # Primitive operations, for who compiles those.
        zeros = _C_ops.full(dims, 0.0, gradient.dtype, core.Place())
        return _C_ops.where(_C_ops.expand(holds, dims) if dims else holds, gradient, zeros)
