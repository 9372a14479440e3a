"""Return the memory of freed tensors to the system, on a CPU.

The C library of Linux keeps freed blocks of up to 32 MiB for later ones. Micro-batches differ in size, so few of these
blocks are used again: a learner of SmolLM2-135M grew from 4 to 18 GB within nine updates.
"""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def return_freed_memory() -> None:
    """Return the free blocks to the system; with another C library than glibc, do nothing."""
    if _trim is not None:
        _trim(0)
