import sys
from pathlib import Path

import pytest

# The helpers stand here; a folder may use the cases of another one.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted(str(folder) for folder in HERE.glob("[a-z]*") if folder.is_dir())]


@pytest.fixture(autouse=True)
def _nothing_translated_before():
    """What a test before has translated, and something still holds, is not what this one gets."""
    from paddle_sot_rs import api

    api._alive.clear()
