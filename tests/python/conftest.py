import faulthandler
import sys
import zlib
from collections import defaultdict
from pathlib import Path

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# The helpers stand here; a folder may use the cases of another one.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *sorted(str(folder) for folder in HERE.glob("[a-z]*") if folder.is_dir())]


@pytest.fixture(autouse=True)
def _nothing_translated_before():
    """What a test before has translated, and something still holds, is not what this one gets."""
    from paddle_sot_rs import api

    api._alive.clear()


def pytest_collection_finish(session):
    """A process that dies says where: Paddle has put silent handlers in the place of those of pytest."""
    where = session.config.stash.get(fault_handler_stderr_fd_key, None)
    if where is not None:
        faulthandler.disable()
        faulthandler.enable(file=where)


def pytest_addoption(parser):
    group = parser.getgroup("matrices")
    group.addoption("--matrix", type=int, metavar="N", help="of a test with more cases run N: others for each seed")
    group.addoption("--matrix-seed", default="", help="what chooses them (a commit)")
    parser.addoption("--accept", action="store_true", help="write snapshots anew")


def pytest_collection_modifyitems(config, items):
    """Leaves out what is known of this version of Paddle, and most cases of long matrices where that is asked for."""
    left_out = _differs_in_paddle(items) | _of_long_matrices(items, config.option.matrix, config.option.matrix_seed)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def _of_long_matrices(items, most, seed):
    if most is None:
        return set()
    matrices = defaultdict(list)
    for item in items:
        matrices[item.nodeid.partition("[")[0]].append(item.nodeid)
    chosen = lambda name: zlib.crc32(f"{seed} {name}".encode())  # noqa: E731 - a key
    return {name for cases in matrices.values() for name in sorted(cases, key=chosen)[most:]}


def _differs_in_paddle(items):
    """The tests that `paddle_VERSION.txt` lists: a prefix of their names a line, behind it why."""
    import paddle

    listed = HERE / f"paddle_{'_'.join(paddle.__version__.split('.')[:2])}.txt"
    if not listed.exists():
        return set()
    lines = [line.partition("  # ")[0].strip() for line in listed.read_text().splitlines() if line[:1] != "#"]
    prefixes = tuple(line for line in lines if line)
    return {item.nodeid for item in items if item.nodeid.partition("tests/python/")[2].startswith(prefixes)}


@pytest.fixture
def impatient():
    """Threads that get their turn much more often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
