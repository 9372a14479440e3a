"""The engine's side of ``collective``: one worker's part of the broadcasts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..source import Bucket, divide, metadata_of
from .group import LOOPBACK, WeightGroup, join_store


class CollectiveReceiver:
    """One worker. Its group lives as long as the learner keeps the session."""

    def __init__(self, worker: int, device: torch.device) -> None:
        self._rank = 1 + worker
        self._device = device
        self._session = ""
        self._group: WeightGroup | None = None

    def receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
        """Yield every parameter; each bucket has memory of its own, because vLLM may keep a parameter for later.

        After an error the worker has left the group, so that the learner does not wait.

        Raises:
            TransferFailed: the learner died, or did not take part in time.
            RuntimeError: the learner sends another transfer.
        """
        try:
            yield from self._receive(offer)
        except BaseException:
            self.close()
            raise

    def _receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
        group = self._join(offer)
        device = self._device if offer["backend"] == "nccl" else torch.device("cpu")
        number = torch.zeros(1, dtype=torch.int64, device=device)
        group.wait(group.broadcast(number), "the begin of the learner's transfer")
        if int(number) != offer["transfer"]:
            raise RuntimeError(f"the learner sends transfer {int(number)}, not {offer['transfer']}")
        ready: tuple[Bucket, Tensor] | None = None
        for bucket in divide(metadata_of(offer), offer["bucket_bytes"]):
            data = torch.empty(bucket.nbytes, dtype=torch.uint8, device=device)
            work = group.broadcast(data)
            if ready is not None:
                yield from ready[0].unpack(ready[1])
            group.wait(work, "the receipt of a bucket of weights")
            ready = bucket, data
        if ready is not None:
            yield from ready[0].unpack(ready[1])

    def close(self) -> None:
        """Leave the group."""
        if self._group is not None:
            self._group.close()
            self._group = None

    def _join(self, offer: dict[str, Any]) -> WeightGroup:
        if self._group is None or self._session != offer["session"]:
            self.close()
            host, port, size = offer["host"], offer["port"], offer["size"]
            store = join_store(host, port, size)
            self._group = WeightGroup(store, self._rank, size, offer["backend"], _address_towards(host, port))
            self._session = offer["session"]
        return self._group


def _address_towards(host: str, port: int) -> str:
    """Return the address of this host from which it reaches another one."""
    if host == LOOPBACK:
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        address: str = probe.getsockname()[0]
        return address
