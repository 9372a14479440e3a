"""The transport ``ipc``: an engine on the learner's GPU reads the learner's weights where they are, by CUDA IPC.

Nothing is copied through the host. The learner does not train while an engine reads. Handles are sent as numbers and
text, and nothing is unpickled: they are the fields of torch's own handle of a storage.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...errors import TurnwiseError
from .base import Link
from .source import ParameterSource, metadata_of

if TYPE_CHECKING:
    import torch


class IpcSender:
    """The learner's side, on a GPU."""

    keeps_weights = False

    def __init__(self, source: ParameterSource, link: Link) -> None:
        """Raises ``TurnwiseError`` if learner or engine is not on a GPU."""
        if not (source.on_gpu and link.engines_on_gpu and link.one_node and link.workers_per_engine == 1):
            raise TurnwiseError(
                "the weight transport `ipc` needs learner and engine on one GPU: set `learner.device` to `cuda` and "
                "`engine.tensor_parallel_size` to 1, or `learner.weight_transport` to `auto`"
            )
        self._source = source

    def write(self) -> None:
        """Wait until the GPU has computed the present weights."""
        import torch

        torch.cuda.synchronize()

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        """Return the handle of each parameter; every transfer has new ones, because an engine returns what it opened.

        Raises:
            TurnwiseError: a parameter is not on the GPU.
        """
        import torch

        handles = []
        for name, value in self._source:
            if not value.is_contiguous() or value.device.type != "cuda":
                raise TurnwiseError(
                    f"the weight transport `ipc` needs contiguous parameters on the GPU, and `{name}` is none: set "
                    "`learner.weight_transport` to `shm`"
                )
            storage: Any = value.untyped_storage()
            fields = storage._share_cuda_()
            handles.append({"fields": [_as_text(field) for field in fields], "offset": value.storage_offset()})
        gpu = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        return {"transport": "ipc", "gpu": gpu, "handles": handles, **self._source.layout()}

    def send(self, engine: int) -> None:
        """Do nothing: the engine reads the learner's memory."""

    def close(self) -> None:
        """Free the memory of handles that no engine has open."""
        import torch

        torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]


class IpcReceiver:
    """The engine's side."""

    def __init__(self, worker: int, device: torch.device) -> None:
        self._device = device

    def receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every parameter as a view of the learner's memory.

        Raises:
            RuntimeError: the engine is on another GPU than the learner, or the learner died.
        """
        import torch

        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        own = str(torch.cuda.get_device_properties(index).uuid)
        if own != offer["gpu"]:
            raise RuntimeError(
                f"the engine is on GPU {own} and the learner on {offer['gpu']}; the weight transport `ipc` needs one: "
                "give both the same GPU, or set `learner.weight_transport` to `shm`"
            )
        storages: Any = torch.UntypedStorage
        for one, handle in zip(metadata_of(offer), offer["handles"], strict=True):
            _, *fields = (_as_field(value) for value in handle["fields"])
            storage = storages._new_shared_cuda(index, *fields)
            whole: Any = torch.empty(0, dtype=one.dtype, device=self._device)
            stride = torch.empty(one.shape, device="meta").stride()
            yield one.name, whole.set_(storage, handle["offset"], one.shape, stride)

    def close(self) -> None:
        """Do nothing: torch returns a handle when the last tensor of it is gone."""


class IpcTransport:
    """One GPU that learner and engine share; whether it is the same one shows in the first transfer."""

    sender, receiver = IpcSender, IpcReceiver


def _as_text(field: Any) -> Any:
    """Return a field of a handle as a JSON value."""
    return {"base64": b64encode(field).decode()} if isinstance(field, bytes) else field


def _as_field(value: Any) -> Any:
    return b64decode(value["base64"]) if isinstance(value, dict) else value
