"""The learner's side of ``collective``: gather, pack into buckets, and broadcast to one engine."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from ..base import EngineLost, Link
from ..source import BUCKET_BYTES, Bucket, ParameterSource, as_bytes, divide
from .group import LOOPBACK, TransferFailed, WeightGroup, host_store


@dataclass(slots=True)
class _Session:
    """The group with one incarnation of an engine."""

    incarnation: str
    store: Any
    address: tuple[str, int]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    group: WeightGroup | None = None
    transfers: int = 0


class CollectiveSender:
    """Sends the present weights; the learner must not train meanwhile."""

    keeps_weights = False

    def __init__(self, source: ParameterSource, link: Link, bucket_bytes: int = BUCKET_BYTES) -> None:
        self._source = source
        self._link = link
        metadata = source.metadata()
        self._buckets = divide(metadata, bucket_bytes)
        self._size = 1 + link.workers_per_engine
        self._backend = "nccl" if source.on_gpu and link.engines_on_gpu else "gloo"
        self._device = torch.device("cuda" if self._backend == "nccl" else "cpu")
        self._layout = {
            "transport": "collective",
            "backend": self._backend,
            "size": self._size,
            "bucket_bytes": bucket_bytes,
            **source.layout(),
        }
        self._sessions: dict[int, _Session] = {}
        self._buffers: list[Tensor] = []
        self._turn = Lock()

    def write(self) -> None:
        """Do nothing: each transfer reads the weights."""

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return where the engine's workers meet the learner, and the layout of the transfer."""
        if self._link.rank:
            return {}
        with self._turn:
            session = self._sessions.get(engine)
            if session is None or session.incarnation != incarnation:
                self._forget(engine)
                host = LOOPBACK if self._link.one_node else _own_address()
                store, port = host_store(host, self._size)
                session = self._sessions[engine] = _Session(incarnation, store, (host, port))
            session.transfers += 1
            host, port = session.address
            return {
                "session": session.name,
                "transfer": session.transfers,
                "host": host,
                "port": port,
                **self._layout,
            }

    def send(self, engine: int) -> None:
        """Send every bucket to the engine. Other ranks take part in gathering.

        Raises:
            EngineLost: the engine died, or did not take part in time. All ranks have gathered everything.
        """
        with self._turn:
            values = (value for _, value in self._source)
            try:
                if self._link.rank == 0:
                    self._stream(engine, values)
            except TransferFailed as error:
                self._forget(engine)
                raise EngineLost(f"engine {engine} did not receive the weights: {error}") from error
            finally:
                deque(values, maxlen=0)  # gathering is a collective of all ranks

    def close(self) -> None:
        """Leave every group."""
        for engine in list(self._sessions):
            self._forget(engine)
        self._buffers.clear()

    def _forget(self, engine: int) -> None:
        session = self._sessions.pop(engine, None)
        if session is not None and session.group is not None:
            session.group.close()

    def _stream(self, engine: int, values: Iterator[Tensor]) -> None:
        session = self._sessions[engine]
        if session.group is None:
            session.group = WeightGroup(session.store, 0, self._size, self._backend, session.address[0])
        if not self._buffers:
            size = max((bucket.nbytes for bucket in self._buckets if len(bucket.parameters) > 1), default=0)
            self._buffers = [torch.empty(size, dtype=torch.uint8, device=self._device) for _ in range(2)]
        stream = _Stream(session.group, self._buffers)
        stream.start(torch.tensor([session.transfers], device=self._device))
        for bucket in self._buckets:
            stream.send(bucket, islice(values, len(bucket.parameters)))
        stream.finish()


class _Stream:
    """The buckets of one transfer: the next one is packed while one is sent."""

    def __init__(self, group: WeightGroup, buffers: list[Tensor]) -> None:
        self._group = group
        self._buffers = deque(buffers)
        self._pending: tuple[Any, Tensor] | None = None

    def start(self, data: Tensor) -> None:
        """Send a tensor after the one before it."""
        self.finish()
        self._pending = self._group.broadcast(data), data

    def send(self, bucket: Bucket, values: Iterator[Tensor]) -> None:
        """Send the parameters of a bucket; one alone is sent from its own memory."""
        buffer = self._buffers[0]
        if len(bucket.parameters) == 1:
            self.start(as_bytes(next(values).to(buffer.device)))
            return
        self._buffers.rotate(1)
        self.start(bucket.pack(values, buffer))

    def finish(self) -> None:
        """Wait until everything is sent."""
        if self._pending is not None:
            work, _ = self._pending
            self._pending = None
            self._group.wait(work, "the transfer of a bucket of weights")


def _own_address() -> str:
    """Return the address of this host in the network of the Ray cluster."""
    import ray.util

    address: str = ray.util.get_node_ip_address()
    return address
