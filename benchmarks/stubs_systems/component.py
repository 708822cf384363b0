"""The components of the Python systems; LATLAB_FASTER makes them really faster by that part."""

import hashlib
import os

LEFT = 1.0 - float(os.environ.get("LATLAB_FASTER", "0"))
_DATA = bytes(1 << 20)


def compute(n: int) -> int:
    """Pure Python: it holds the global lock."""
    total = 0
    for i in range(int(n * LEFT)):
        total += i & 7
    return 1


def digest(size: int) -> int:
    """It works without the global lock."""
    hashlib.sha256(memoryview(_DATA)[: max(1, int(size * LEFT))]).digest()
    return 1
