"""Which kernels MKL runs: a matrix product's last digits tell them apart.

Run as a script, in a process of its own, it prints the fingerprint: a kernel that the processor lacks ends that
process and no other. It imports nothing but the standard library, so it takes some 50 ms.
"""

import ctypes
import hashlib
import os
import sys
from typing import Any

# Rows of the matrices: enough for every kernel to take its main loop, below a millisecond.
_SIZE = 64
_ROW_MAJOR, _NOT_TRANSPOSED = 101, 111


def load(path: str) -> ctypes.CDLL:
    """MKLML, as Paddle's wheel carries it; the same library that Paddle has loaded, where it has."""
    openmp = os.path.join(os.path.dirname(path), "libiomp5.so")
    if os.path.exists(openmp):
        # It is found beside MKLML by Paddle's own search path only.
        ctypes.CDLL(openmp, mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(path)


def _product(library: ctypes.CDLL, name: str, kind: Any) -> bytes:
    items = _SIZE * _SIZE
    matrix = kind * items
    left = matrix(*(at * 0.618034 % 1 for at in range(items)))
    right = matrix(*(at * 0.414214 % 1 for at in range(items)))
    result = matrix()
    product = getattr(library, name)
    product.restype = None
    product.argtypes = [
        *(ctypes.c_int,) * 6,
        *(kind, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int),
        *(kind, ctypes.c_void_p, ctypes.c_int),
    ]
    plain = _NOT_TRANSPOSED
    product(_ROW_MAJOR, plain, plain, _SIZE, _SIZE, _SIZE, 1, left, _SIZE, right, _SIZE, 0, result, _SIZE)
    return bytes(result)


def fingerprint(library: ctypes.CDLL) -> str:
    """Tells the kernels of matrix products apart, in single and double precision."""
    products = (("cblas_sgemm", ctypes.c_float), ("cblas_dgemm", ctypes.c_double))
    return hashlib.sha256(b"".join(_product(library, *each) for each in products)).hexdigest()


if __name__ == "__main__":
    print(fingerprint(load(sys.argv[1])))
