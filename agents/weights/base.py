"""The protocols of a weight transport: the learner's side, the engine's side, and the class that makes both.

A transfer to one engine has these steps:

1. ``WeightSender.write`` takes the present weights, once per version.
2. ``WeightSender.offer`` returns the argument of ``Engine.update_weights``: plain JSON values.
3. ``WeightSender.send`` runs while the engine executes ``update_weights``; its workers call ``WeightReceiver.receive``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import TurnwiseError

if TYPE_CHECKING:
    import torch

    from .source import ParameterSource


class EngineLost(TurnwiseError):
    """An engine did not receive the weights: it died, or did not take part within the timeout."""


@dataclass(frozen=True, slots=True)
class Link:
    """The two ends of the transfers of one learner."""

    rank: int = 0
    """This rank of the learner; only rank 0 sends, and the others take part in gathering sharded weights."""
    workers_per_engine: int = 1
    """Workers that load weights in each engine: its degree of tensor parallelism."""
    engines_on_gpu: bool = False
    one_node: bool = True
    """Whether all engines run on the learner's node of the Ray cluster."""


class WeightSender(Protocol):
    """The learner's side. Every method blocks, and is called on all ranks in the same order."""

    keeps_weights: bool
    """Whether engines read a copy of the weights that ``write`` made: all engines have the same offer, and ``send``
    does nothing. If not, ``send`` reads the learner's memory, and the learner must not train meanwhile."""

    def write(self) -> None:
        """Take the present weights for the following transfers. No transfer is under way."""

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the argument of ``Engine.update_weights`` for the next transfer; empty on ranks other than 0.

        It names its ``transport``, and contains ``ParameterSource.layout``.

        Args:
            engine: number of the engine.
            incarnation: changes when the engine is restarted; empty if ``keeps_weights``.

        Raises:
            TurnwiseError: the transfer cannot be prepared.
        """

    def send(self, engine: int) -> None:
        """Transfer the weights to an engine that executes ``update_weights`` with the last offer.

        Raises:
            EngineLost: the engine did not take part. Another offer starts again.
        """

    def close(self) -> None:
        """Free everything; engines keep the weights that they loaded."""


class WeightReceiver(Protocol):
    """The side of one worker of an engine."""

    def receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every parameter of the offered transfer by its name in the checkpoint.

        Raises:
            RuntimeError: the learner did not take part, or the weights are not those of the offer. What was yielded
                must not be served.
        """

    def close(self) -> None:
        """Free everything that is kept between transfers."""


class WeightTransport(Protocol):
    """Makes both sides; its class is the object of an entry point."""

    def sender(self, source: ParameterSource, link: Link) -> WeightSender:
        """Return the learner's side; call this on all ranks."""

    def receiver(self, worker: int, device: torch.device) -> WeightReceiver:
        """Return the side of one worker of an engine.

        Args:
            worker: its number in the engine, from 0.
            device: where its parameters are.
        """
