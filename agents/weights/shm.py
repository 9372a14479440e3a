"""The transport ``shm``: a buffer that the learner fills once per version, and that engines on its host map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Link, WeightReceiver, WeightSender
from .source import ParameterSource

if TYPE_CHECKING:
    import torch

    from .shm_writer import WeightWriter


class ShmSender:
    """The learner's side: the buffer holds the weights of the last ``write``."""

    keeps_weights = True

    def __init__(self, source: ParameterSource, link: Link) -> None:
        self._source = source
        self._is_sender = link.rank == 0
        self._writer: WeightWriter | None = None
        self._location: dict[str, Any] = {}

    def write(self) -> None:
        """Copy the present weights into the buffer; other ranks take part in gathering them."""
        if not self._is_sender:
            for _ in self._source:
                pass
            return
        if self._writer is None:
            from .shm_writer import WeightWriter

            self._writer = WeightWriter(self._source)
        self._location = self._writer.write()

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the location of the buffer: the same for every engine."""
        return self._location

    def send(self, engine: int) -> None:
        """Do nothing: the engine reads the buffer."""

    def close(self) -> None:
        """Free the buffer."""
        if self._writer is not None:
            self._writer.close()


class ShmTransport:
    """Shared memory of one host."""

    def sender(self, source: ParameterSource, link: Link) -> WeightSender:
        """Return the learner's side; its buffer is allocated at the first ``write``."""
        return ShmSender(source, link)

    def receiver(self, worker: int, device: torch.device) -> WeightReceiver:
        """Return the side of one worker; all workers read one buffer."""
        from .shm_receiver import ShmReceiver

        return ShmReceiver()
