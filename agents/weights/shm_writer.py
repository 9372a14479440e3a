"""The learner's side of ``shm``: parameters in memory that engines on this machine map.

``WeightWriter`` allocates one buffer of fixed size and copies the parameters into it on each ``write``. The result of
``write`` goes to ``Engine.update_weights``, whose workers map the same buffer (``shm_receiver``). The buffer begins
with a generation number: an engine that reads while the learner writes detects it and fails instead of serving a
mixture.

The buffer is anonymous memory, which the kernel frees when the learner ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
from typing import Any

import torch

from .source import ParameterSource

GENERATION_BYTES = 64
_ALIGNMENT = 64
_WRITING = -1


def read_generation(buffer: mmap.mmap) -> int:
    """Return the number of the write that the buffer holds; -1 during a write."""
    value: int = struct.unpack_from("<q", buffer)[0]
    return value


class WeightWriter:
    """Copies parameters into a buffer that the engines on this machine map."""

    def __init__(self, source: ParameterSource) -> None:
        """Allocate the buffer."""
        self._source = source
        self._generation = 0
        metadata = source.metadata()
        offsets: list[int] = []
        size = GENERATION_BYTES
        for one in metadata:
            offsets.append(size)
            size += -(-one.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._descriptor = os.memfd_create("turnwise-weights")
        os.ftruncate(self._descriptor, size)
        self._buffer = mmap.mmap(self._descriptor, size)
        self._location = {
            "transport": "shm",
            "path": f"/proc/{os.getpid()}/fd/{self._descriptor}",
            "buffer": uuid.uuid4().hex,
            "offsets": offsets,
            **source.layout(),
        }
        self._views = [
            torch.frombuffer(self._buffer, dtype=one.dtype, count=torch.Size(one.shape).numel(), offset=offset).view(
                one.shape
            )
            for one, offset in zip(metadata, offsets, strict=True)
        ]

    def write(self) -> dict[str, Any]:
        """Copy the current parameters; return the argument of ``Engine.update_weights``, in plain JSON values.

        Every engine must have finished reading the previous write.
        """
        self._generation += 1
        struct.pack_into("<q", self._buffer, 0, _WRITING)
        for view, (_, value) in zip(self._views, self._source, strict=True):
            view.copy_(value)
        struct.pack_into("<q", self._buffer, 0, self._generation)
        return {**self._location, "generation": self._generation}

    def close(self) -> None:
        """Free the memory; engines keep the weights that they loaded."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
