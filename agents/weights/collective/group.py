"""A process group of rank 0 of the learner and the workers of one engine, apart from every other group of either side.

The sender hosts the store at which the members meet. The group uses torch's backends directly: the registry of
``torch.distributed`` belongs to vLLM in an engine and to FSDP in a learner.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from torch import Tensor

CONNECT_TIMEOUT_S = 30.0
"""Seconds until all members of a group must have joined it."""
BUCKET_TIMEOUT_S = 60.0
"""Seconds that one bucket may take."""
LOOPBACK = "127.0.0.1"


class TransferFailed(RuntimeError):
    """A member died, or did not take part in time; the group cannot be used again."""


@contextmanager
def doing(reason: str, timeout_s: float) -> Iterator[None]:
    """Raise an error of torch's inside the ``with`` block as ``TransferFailed``, with the reason of the wait."""
    try:
        yield
    except TransferFailed:
        raise
    except RuntimeError as error:
        raise TransferFailed(f"{reason} failed, or took more than {timeout_s:g} s: {error}") from error


def host_store(host: str, size: int) -> tuple[Any, int]:
    """Open a port of ``host`` on which the members meet; return the store and the port."""
    import torch.distributed as dist

    listener = socket.create_server((host, 0), backlog=size)
    port: int = listener.getsockname()[1]
    timeout = timedelta(seconds=CONNECT_TIMEOUT_S)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, size, True, timeout, wait_for_workers=False, master_listen_fd=listener.detach()
    )
    return store, port


def join_store(host: str, port: int, size: int) -> Any:
    """Return the store that a sender hosts.

    Raises:
        TransferFailed: the sender does not answer.
    """
    import torch.distributed as dist

    timeout = timedelta(seconds=CONNECT_TIMEOUT_S)
    with doing(f"the connection to the learner at {host}:{port}", CONNECT_TIMEOUT_S):
        return dist.TCPStore(host, port, size, False, timeout, wait_for_workers=False)  # type: ignore[attr-defined]


class WeightGroup:
    """The members of one transfer after the other; rank 0 broadcasts.

    A member has one broadcast under way at most. When a connection breaks, gloo ends only the first: others would block
    the end of the group until their timeout.
    """

    def __init__(self, store: Any, rank: int, size: int, backend: str, address: str) -> None:
        """Wait until all members have joined.

        Args:
            backend: ``gloo`` or ``nccl``.
            address: an address of this host that the other members reach.

        Raises:
            TransferFailed: a member did not join in time.
        """
        import torch.distributed as dist

        self._store = store
        """Hosts the addresses of the members; on rank 0 it must live as long as the group."""
        self._options: Any = dist.BroadcastOptions()
        self._options.rootRank = 0
        self._options.rootTensor = 0
        make = _nccl if backend == "nccl" else _gloo
        with doing(f"the meeting of the learner with the {size - 1} workers of an engine", CONNECT_TIMEOUT_S):
            self._backend = make(store, rank, size, address)

    def broadcast(self, tensor: Tensor) -> Any:
        """Start to send a tensor from rank 0, or to receive into it; ``wait`` ends it."""
        with doing("the start of a transfer", BUCKET_TIMEOUT_S):
            return self._backend.broadcast([tensor], self._options)

    def close(self) -> None:
        """Leave the group: pending waits of the other members end."""
        self._backend = None

    def wait(self, work: Any, reason: str) -> None:
        """Wait until a broadcast is complete.

        Raises:
            TransferFailed: it failed, or took too long.
        """
        with doing(reason, BUCKET_TIMEOUT_S):
            work.wait(timedelta(seconds=BUCKET_TIMEOUT_S))


def _gloo(store: Any, rank: int, size: int, address: str) -> Any:
    import torch.distributed as dist

    kind: Any = dist.ProcessGroupGloo
    options = kind._Options()
    options._devices = [kind.create_device(hostname=address)]
    options._timeout = timedelta(seconds=CONNECT_TIMEOUT_S)
    backend = kind(store, rank, size, options)
    backend.set_timeout(timedelta(seconds=BUCKET_TIMEOUT_S))
    return backend


def _nccl(store: Any, rank: int, size: int, address: str) -> Any:
    """Return NCCL's backend for the current GPU; its waits block and raise, where by default they end the process."""
    from torch.distributed import distributed_c10d

    kind: Any = distributed_c10d.ProcessGroupNCCL
    options = kind.Options()
    options._timeout = timedelta(seconds=BUCKET_TIMEOUT_S)
    name = "TORCH_NCCL_BLOCKING_WAIT"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        return kind(store, rank, size, options)
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
