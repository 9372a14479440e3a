"""Both sides of ``collective``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Link, WeightReceiver, WeightSender
from ..source import ParameterSource

if TYPE_CHECKING:
    import torch


class CollectiveTransport:
    """A process group per engine."""

    def sender(self, source: ParameterSource, link: Link) -> WeightSender:
        """Return the learner's side."""
        from .sender import CollectiveSender

        return CollectiveSender(source, link)

    def receiver(self, worker: int, device: torch.device) -> WeightReceiver:
        """Return the side of one worker."""
        from .receiver import CollectiveReceiver

        return CollectiveReceiver(worker, device)
