"""The transport ``shm``: a buffer that the learner fills once per version, and that engines on its host map.

The buffer begins with a generation number: an engine that reads while the learner writes detects it and fails instead
of serving a mixture. It is anonymous memory, which the kernel frees when the learner ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import torch

from .base import Link
from .source import ParameterSource, ParamMeta, metadata_of

GENERATION_BYTES = 64
_ALIGNMENT = 64
_WRITING = -1


def read_generation(buffer: mmap.mmap) -> int:
    """Return the number of the write that the buffer holds; -1 during a write."""
    value: int = struct.unpack_from("<q", buffer)[0]
    return value


def _view(buffer: mmap.mmap, parameter: ParamMeta, offset: int) -> torch.Tensor:
    size = torch.Size(parameter.shape)
    return torch.frombuffer(buffer, dtype=parameter.dtype, count=size.numel(), offset=offset).view(size)


class ShmSender:
    """The learner's side: the buffer holds the weights of the last ``write``, of which the first allocates it."""

    keeps_weights = True

    def __init__(self, source: ParameterSource, link: Link) -> None:
        self._source = source
        self._is_sender = link.rank == 0
        self._descriptor = -1
        self._offer: dict[str, Any] = {}

    def write(self) -> None:
        """Copy the present weights into the buffer; other ranks take part in gathering them.

        Every engine must have finished reading the previous write.
        """
        if not self._is_sender:
            for _ in self._source:
                pass
            return
        if not self._offer:
            self._allocate()
        struct.pack_into("<q", self._buffer, 0, _WRITING)
        for view, (_, value) in zip(self._views, self._source, strict=True):
            view.copy_(value)
        generation = self._offer["generation"] + 1
        struct.pack_into("<q", self._buffer, 0, generation)
        self._offer = {**self._offer, "generation": generation}

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the location of the buffer: the same for every engine."""
        return self._offer

    def send(self, engine: int) -> None:
        """Do nothing: the engine reads the buffer."""

    def close(self) -> None:
        """Free the memory; engines keep the weights that they loaded."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _allocate(self) -> None:
        metadata, offsets, size = self._source.metadata(), list[int](), GENERATION_BYTES
        for one in metadata:
            offsets.append(size)
            size += -(-one.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._descriptor = os.memfd_create("turnwise-weights")
        os.ftruncate(self._descriptor, size)
        self._buffer = mmap.mmap(self._descriptor, size)
        self._views = [_view(self._buffer, one, offset) for one, offset in zip(metadata, offsets, strict=True)]
        self._offer = {
            "transport": "shm",
            "path": f"/proc/{os.getpid()}/fd/{self._descriptor}",
            "buffer": uuid.uuid4().hex,
            "offsets": offsets,
            "generation": 0,
            **self._source.layout(),
        }


class ShmReceiver:
    """One worker's mapping of the learner's buffer.

    The mapping is kept between updates. A new mapping would cost as much as the copy of the weights: the kernel enters
    each page into it at the first access.
    """

    def __init__(self, worker: int, device: torch.device) -> None:
        self._name = ""
        self._buffer: mmap.mmap | None = None

    def receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every parameter as a view of the buffer.

        Raises:
            RuntimeError: the learner wrote to the buffer meanwhile, so the weights are a mixture of two versions.
        """
        buffer = self._map(offer)
        _check(buffer, offer)
        for one, offset in zip(metadata_of(offer), offer["offsets"], strict=True):
            yield one.name, _view(buffer, one, offset)
        _check(buffer, offer)

    def close(self) -> None:
        """Drop the mapping; the memory is freed once no tensor views it."""
        self._buffer = None

    def _map(self, offer: dict[str, Any]) -> mmap.mmap:
        if self._buffer is None or self._name != offer["buffer"]:
            descriptor = os.open(offer["path"], os.O_RDWR)
            try:
                self._buffer = mmap.mmap(descriptor, 0)
            finally:
                os.close(descriptor)
            self._name = offer["buffer"]
        return self._buffer


def _check(buffer: mmap.mmap, offer: dict[str, Any]) -> None:
    found = read_generation(buffer)
    if found != offer["generation"]:
        raise RuntimeError(
            f"the weight buffer {offer['path']} holds write {found}, not {offer['generation']}: "
            "the learner must not write while an engine reads"
        )


class ShmTransport:
    """Shared memory of one host; all workers of an engine read one buffer."""

    sender, receiver = ShmSender, ShmReceiver
