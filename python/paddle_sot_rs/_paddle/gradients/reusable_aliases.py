"""Aliases whose nodes go backward any number of times: those of Paddle's operations do so once.

Such a node has no gradient of its gradient. To a walk that asks for those, the alias is a run of a program: see
`double_backward.py`.
"""

import weakref

from paddle_sot_rs._core import paddle_backend

_next_number = paddle_backend.next_number
# By their numbers, among those of runs.
_alive: weakref.WeakValueDictionary[int, "Reusable"] = weakref.WeakValueDictionary()


class Reusable:
    """An alias of a tensor, as a run that answers with it."""

    def __init__(self, tensor, view):
        self.number, self.tensor, self._view = _next_number(), tensor, view
        _alive[self.number] = self

    def names(self):
        return ()

    def inputs(self):
        return [self.tensor]

    def replay(self):
        return [self._view(self.tensor)]

    def results(self):
        return ()

    def random_state(self):
        return None

    def note_saved(self):
        """It frees nothing: there is nothing to note."""
        return True

    def hold(self):
        """See `note_saved`."""

    def release(self, tensors, moment):
        """See `note_saved`."""


def among(runs):
    """What gradients of gradients are computed again through, latest first: these aliases and runs."""
    return sorted([*runs, *_alive.values()], key=lambda run: run.number, reverse=True) if _alive else runs
