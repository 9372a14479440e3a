"""One rank of the backend ``fsdp``: the learner of a process that trains together with others.

The module imports no Ray, so that a process without Ray can be a rank too.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import torch

from ....agents.placement import own_node
from ....agents.weights.base import EngineLost, Link, WeightSender
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import PolicyLoss
from ...algorithms.proximal.base import ProximalPolicy
from ...config.sections import LearnerConfig
from ..provenance.recording import LogprobTrace
from ..sft import SftExample
from .local import Learner
from .ranks import COLLECTIVE_TIMEOUT_S, DistributedRanks

RENDEZVOUS_TIMEOUT_S = 120.0
"""Seconds until a rank fails because another one does not connect."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RankSpec:
    """What every rank is started with, in values that need no class to be read."""

    model: str
    """Folder of the model; every rank reads it."""
    config: Mapping[str, Any]
    loss: Mapping[str, Any]
    """The name and the options of the component."""
    proximal: Mapping[str, Any]
    temperature: float
    collective_timeout_s: float = COLLECTIVE_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class RankUpdate:
    """The result of an update on one rank."""

    metrics: Mapping[str, float]
    """The same on every rank."""
    trace: LogprobTrace
    """Of the samples that the rank computed."""
    stream: tuple[Any, ...]
    """The state of the random stream afterwards."""
    states: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The states of the loss and of the proximal policy afterwards."""


class LearnerRank:
    """A rank: ``listen`` on the first one, then ``connect`` and the other methods on all, in the same order."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size
        self._listener: socket.socket | None = None
        self._store: Any = None
        self._learner: Learner
        self._sender: WeightSender | None = None

    def listen(self, host: str = LOOPBACK) -> tuple[str, int]:
        """Open the socket at which the ranks meet, and return its address."""
        self._listener = socket.create_server((host, 0), backlog=self._size)
        address: tuple[str, int] = self._listener.getsockname()[:2]
        return address

    def log_file(self) -> str:
        """Return the file of this process's stderr."""
        return os.readlink("/proc/self/fd/2")  # noqa: PTH115 - of a pipe, it is not a path

    def connect(self, address: tuple[str, int], spec: RankSpec) -> None:
        """Join the process group and load the model.

        Raises:
            TurnwiseError: the model cannot be sharded.
        """
        import torch.distributed as dist

        host, port = address
        if host == LOOPBACK:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        timeout = timedelta(seconds=RENDEZVOUS_TIMEOUT_S)
        descriptor = None if self._listener is None else self._listener.detach()
        self._store = dist.TCPStore(  # type: ignore[attr-defined]
            host, port, self._size, self._rank == 0, timeout, wait_for_workers=False, master_listen_fd=descriptor
        )
        config = LearnerConfig.model_validate(spec.config)
        if config.device == "cuda":
            torch.cuda.set_device(0)
        dist.init_process_group(
            "nccl" if config.device == "cuda" else "gloo",
            store=self._store,
            rank=self._rank,
            world_size=self._size,
            timeout=timedelta(seconds=spec.collective_timeout_s),
        )
        loss, proximal = PolicyLoss.build(spec.loss), ProximalPolicy.build(spec.proximal)
        self._ranks = DistributedRanks(spec.collective_timeout_s)
        self._learner = Learner(spec.model, config, loss, proximal, spec.temperature, self._ranks)

    def update(
        self,
        samples: Sequence[TrainSample],
        lr_progress: float,
        update: int,
        stream: Random,
        states: tuple[Mapping[str, Any], Mapping[str, Any]],
    ) -> RankUpdate:
        """Train on a batch together with the other ranks (``LearnerBackend.update``).

        Args:
            states: the states of the loss and of the proximal policy before.
        """
        learner = self._learner
        learner.loss.load_state_dict(states[0])
        learner.proximal.load_state_dict(states[1])
        trace = LogprobTrace()
        with self._ranks.doing("the update"):
            metrics = learner.update(samples, lr_progress, update, stream, trace)
        after = learner.loss.state_dict(), learner.proximal.state_dict()
        return RankUpdate(metrics, trace, stream.getstate(), after)

    def fit(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one supervised step together with the other ranks."""
        with self._ranks.doing("the supervised step"):
            return self._learner.fit(examples, learning_rate, observation_weight)

    def load_reference(self, folder: str) -> None:
        """Load the reference policy, sharded too."""
        with self._ranks.doing("the load of the reference policy"):
            self._learner.load_reference(folder)

    def open_weights(self, transport: str, link: Link) -> bool:
        """Prepare to send the weights, and return ``WeightSender.keeps_weights``."""
        if self._sender is not None:
            self._sender.close()
        self._sender = self._learner.weights(transport, replace(link, rank=self._rank))
        return self._sender.keeps_weights

    def write_weights(self) -> None:
        """Take the present weights together with the other ranks."""
        assert self._sender is not None  # noqa: S101
        with self._ranks.doing("the gathering of the weights"):
            self._sender.write()

    def offer_weights(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the offer of the first rank; nothing on others."""
        assert self._sender is not None  # noqa: S101
        return self._sender.offer(engine, incarnation)

    def send_weights(self, engine: int) -> str:
        """Send the weights to an engine, and return why it did not receive them; empty if it did."""
        assert self._sender is not None  # noqa: S101
        with self._ranks.doing("the gathering of the weights"):
            try:
                self._sender.send(engine)
            except EngineLost as error:
                return str(error)
        return ""

    def node(self) -> str:
        """Return the Ray node of this process. Ray must be up."""
        return own_node()

    def save(self, folder: str) -> None:
        """Write the files of the model and of the optimizer's state, the latter in one file per rank."""
        with self._ranks.doing("the writing of the checkpoint"):
            self._learner.save(Path(folder))

    def load_optimizer(self, folder: str) -> None:
        """Load this rank's parts of the optimizer's state."""
        with self._ranks.doing("the load of the optimizer's state"):
            self._learner.load_optimizer(Path(folder))

    def close(self) -> None:
        """Free the memory of the sent weights and leave the process group."""
        import torch.distributed as dist

        if self._sender is not None:
            self._sender.close()
        dist.destroy_process_group()
