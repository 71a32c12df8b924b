import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# Programs that still differ from plain Python; docs/differences.md says how. A mended one leaves this list.
KNOWN_DIFFERENCES = {"backward_inside"}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name.startswith("test_programs_") and item.callspec.id in KNOWN_DIFFERENCES:
            item.add_marker(pytest.mark.xfail(reason="known difference", strict=True))
