"""The protocols of a weight transport, and the transports by name: they are imported when a run uses them.

A transport has the learner's side, the engine's side, and a class that makes both. A package registers the class by an
entry point of the group ``turnwise.weight_transports``, under the name of the transport.

A transfer to one engine has these steps:

1. ``WeightSender.write`` takes the present weights, once per version.
2. ``WeightSender.offer`` returns the argument of ``Engine.update_weights``: plain JSON values.
3. ``WeightSender.send`` runs while the engine executes ``update_weights``; its workers call ``WeightReceiver.receive``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...errors import TurnwiseError, suggestion

if TYPE_CHECKING:
    import torch

    from .source import ParameterSource

GROUP = "turnwise.weight_transports"
AUTO = "auto"
SHIPPED = {
    "collective": "turnwise.agents.weights.collective:CollectiveTransport",
    "ipc": "turnwise.agents.weights.ipc:IpcTransport",
    "shm": "turnwise.agents.weights.shm:ShmTransport",
}
"""The entry points of ``pyproject.toml``, for a source tree whose installation is older."""


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


@functools.cache
def registered() -> dict[str, str]:
    """Return the import path of each registered transport, by name."""
    found = {entry_point.name: entry_point.value for entry_point in entry_points(group=GROUP)}
    return dict(sorted((found | SHIPPED).items()))


def check_name(name: str) -> str:
    """Return ``name``, which is a transport's or ``auto``.

    Raises:
        ValueError: no transport has this name.
    """
    known = [AUTO, *registered()]
    if name not in known:
        raise ValueError(f"no weight transport is called `{name}`{suggestion(name, known)}")
    return name


def transport(name: str) -> WeightTransport:
    """Return a transport by its name.

    Raises:
        TurnwiseError: no transport has this name, or its package cannot be imported.
    """
    known = registered()
    if name not in known:
        raise TurnwiseError(f"no weight transport is called `{name}`{suggestion(name, list(known))}")
    module, _, attribute = known[name].partition(":")
    try:
        return cast(WeightTransport, getattr(import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise TurnwiseError(f"the weight transport `{name}` is registered as `{known[name]}`: {error}") from error
