"""Values of a block that do not end with it.

Paddle's `Block.args` and `Block.kwargs` give values that point into the block. Its own `to_static` keeps them in a
cycle, until the collector runs, when the program may be long gone. Such a value is found again by its address: an
unrelated list of values (`Program.list_vars()`, `Operation.results()`) that comes to lie there has it as an item, and
reads memory that is free. Copies know their operation and nothing else.
"""

from paddle.base.libpaddle.pir import Block, Value

_args, _kwargs = Block.args, Block.kwargs


def args(self):
    return [value._clone() for value in _args(self)]


def kwargs(self):
    return {name: value._clone() for name, value in _kwargs(self).items()}


if hasattr(Value, "_clone"):  # Not every version of Paddle can copy one.
    for function, of in ((args, _args), (kwargs, _kwargs)):
        function.__doc__ = of.__doc__
        setattr(Block, function.__name__, function)
