"""The transport ``collective``: broadcasts of buckets of parameters from the learner to the workers of an engine.

* Each engine has a process group of its own with rank 0 of the learner, so the death of one engine affects no other.
* Sharded weights are gathered one parameter at a time. Each side holds two buckets and one whole parameter at most.
* Every wait has a timeout, and its error names the reason. A dead peer ends a wait at once, because its sockets close.

Whoever reaches the learner's port can join a group in place of an engine. Ports are open on loopback, or, if engines
run on other hosts, in the network of the Ray cluster.
"""

from __future__ import annotations

import torch

from ..base import Link, WeightReceiver, WeightSender
from ..source import ParameterSource
from .receiver import CollectiveReceiver
from .sender import CollectiveSender


class CollectiveTransport:
    """A process group per engine."""

    def sender(self, source: ParameterSource, link: Link) -> WeightSender:
        """Return the learner's side."""
        return CollectiveSender(source, link)

    def receiver(self, worker: int, device: torch.device) -> WeightReceiver:
        """Return the side of one worker."""
        return CollectiveReceiver(worker, device)
