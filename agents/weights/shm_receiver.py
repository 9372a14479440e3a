"""The engine's side of ``shm``: it maps the buffer that ``shm_writer`` fills.

The mapping is kept between updates. A new mapping would cost as much as the copy of the weights: the kernel enters each
page into it at the first access.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import torch

from .shm_writer import read_generation
from .source import metadata_of


class ShmReceiver:
    """One worker's mapping of the learner's buffer."""

    def __init__(self) -> None:
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
            flat = torch.frombuffer(buffer, dtype=one.dtype, count=torch.Size(one.shape).numel(), offset=offset)
            yield one.name, flat.view(one.shape)
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
