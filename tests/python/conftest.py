import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _nothing_translated_before():
    """What a test before has translated, and something still holds, is not what this one gets."""
    from paddle_sot_rs import api

    api._alive.clear()
