"""Tests of oneDNN say so where a program had to be made without it."""

import logging

import pytest


@pytest.fixture(autouse=True)
def no_program_computes_something_else(request):
    """A rule that is gone would only cost time: each test fails where a program is otherwise than eager mode. Those
    marked `otherwise` expect that.
    """
    found = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: found.append(record.getMessage())
    logger = logging.getLogger("paddle_sot_rs.backend")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if request.node.get_closest_marker("otherwise") is None:
        assert not [message for message in found if "computes it otherwise" in message]
