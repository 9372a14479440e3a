"""The vLLM side of a weight update on the CPU: the backend ``shm`` in vLLM's weight-transfer registry.

vLLM's built-in backends (``nccl``, ``ipc``) need CUDA. This backend maps the buffer that ``shm_writer`` fills, and
loads the weights from it. The steps around the transfer (pause, start, update, finish, resume, versions) are vLLM's and
the same for all backends.

vLLM imports this module in its worker, through ``worker_extension_cls``; the import registers the backend. Parameters
must be plain (``engine.cpu_patches``).
"""

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

from .adapter_loading import load_adapter
from .cpu_experts import repack
from .shm_writer import GENERATION_BYTES, read_generation

BACKEND = "shm"


@dataclass
class ShmInit(WeightTransferInitInfo):  # type: ignore[misc]
    """Empty: each update names its buffer."""


@dataclass
class ShmUpdate(WeightTransferUpdateInfo):  # type: ignore[misc]
    """The location and layout of the weights: exactly the result of ``WeightWriter.write``."""

    path: str = ""
    generation: int = 0
    names: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    adapter: dict[str, Any] | None = None
    """PEFT's settings of a LoRA adapter, if the tensors are its parameters; None if they are those of the model."""


class ShmWeightTransferEngine(WeightTransferEngine):  # type: ignore[misc]
    """Loads weights in place from a shared buffer."""

    init_info_cls = ShmInit
    update_info_cls = ShmUpdate

    def init_transfer_engine(self, init_info: ShmInit) -> None:
        """Do nothing: there is nothing to set up."""

    def start_weight_update(self) -> None:
        """Do nothing: parameters are plain."""

    def receive_weights(self, update_info: ShmUpdate) -> None:
        """Load every parameter of the model from the buffer.

        Raises:
            RuntimeError: the trainer wrote to the buffer during the load, so the weights are a mixture of two versions.
        """
        self._load(update_info, self.model.load_weights)

    def receive_adapter(self, update_info: ShmUpdate) -> None:
        """Load the LoRA adapter from the buffer, in place of the one before.

        Raises:
            RuntimeError: as ``receive_weights`` raises.
            ValueError: the model has no layer for a part of the adapter.
        """
        settings = update_info.adapter or {}
        self._load(update_info, lambda tensors: load_adapter(self.model, tensors, settings))

    def _load(self, update_info: ShmUpdate, load: Callable[[Iterator[tuple[str, torch.Tensor]]], object]) -> None:
        descriptor = os.open(update_info.path, os.O_RDWR)
        try:
            buffer = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        self._check(buffer, update_info)
        load(_tensors(buffer, update_info))
        self._check(buffer, update_info)

    def finish_weight_update(self) -> None:
        """Pack the weights of experts again: all others are plain."""
        repack(self.model)

    def shutdown(self) -> None:
        """Do nothing: no resource is held between updates."""

    def _check(self, buffer: mmap.mmap, update: ShmUpdate) -> None:
        found = read_generation(buffer)
        if found != update.generation:
            raise RuntimeError(
                f"the weight buffer {update.path} holds write {found}, not {update.generation}: "
                "the trainer must not write while an engine reads"
            )


class WorkerExtension:
    """Mixed into vLLM's worker; vLLM imports this module there because its configuration names this class."""

    weight_transfer_engine: ShmWeightTransferEngine

    def update_adapter(self, update_info: dict[str, Any]) -> None:
        """Load the LoRA adapter that the trainer wrote. vLLM's own update would drop it when it finishes."""
        self.weight_transfer_engine.receive_adapter(ShmUpdate(**update_info))


def _tensors(buffer: mmap.mmap, update: ShmUpdate) -> Iterator[tuple[str, torch.Tensor]]:
    for name, dtype, shape, offset in zip(update.names, update.dtypes, update.shapes, update.offsets, strict=True):
        count = torch.Size(shape).numel()
        flat = torch.frombuffer(buffer, dtype=getattr(torch, dtype), count=count, offset=GENERATION_BYTES + offset)
        yield name, flat.view(shape)


if BACKEND not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine(BACKEND, ShmWeightTransferEngine)
