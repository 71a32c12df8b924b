"""How much of what was freed the C library keeps for the next step.

Paddle's CPU tensors come from `malloc`. By itself glibc maps large blocks anew each time, and each page of them is a
fault: a step whose gradients are 17 MB takes five times as long as it computes. A program makes all of its gradients
before any of them goes, so it meets this earlier than eager mode.
"""

import ctypes
import os

# Of <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Larger blocks go back at once, as before. Before glibc 2.35 the second is the most that it takes.
_BLOCKS = (64 << 20, 32 << 20)
# Free memory at the end of the heap beyond this goes back.
_KEPT = 256 << 20
_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")


def keep():
    """Whether the thresholds were raised: not where the user has set one, nor with another C library."""
    if any(map(os.environ.get, _SETTINGS)) or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - an AttributeError where it is another
        mallopt = library.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    # Whatever is set ends glibc's own rule for both: blocks first, and nothing without them.
    return any(mallopt(_MMAP_THRESHOLD, size) for size in _BLOCKS) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))
