"""The weight transports inside vLLM's workers: one backend in vLLM's weight-transfer registry serves all of them.

The offer of each update names its transport, so an engine starts without a choice. The steps around a transfer (pause,
start, update, finish, resume, versions) are vLLM's.

vLLM imports this module in its workers, through ``worker_extension_cls`` and before it loads the model; the import
registers the backend and applies ``cpu_patches``. On a CPU parameters are plain and are loaded in place; on a GPU
vLLM's layer-wise reload prepares the weights for its kernels, as in vLLM's own backends.
"""

import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.platforms import current_platform

from ...base.process.freed_memory import return_freed_memory
from ..weights.base import WeightReceiver, transport
from ..weights.served_adapter import load_adapter, merged_folder, merged_weights
from . import cpu_patches, model_patches

BACKEND = "turnwise"
ROUNDED = "Attempted to load weight"
"""Start of vLLM's warning about each parameter whose data type is not that of the engine."""


@dataclass
class InitInfo(WeightTransferInitInfo):  # type: ignore[misc]
    """Empty: each update names its transport."""


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):  # type: ignore[misc]
    """An update."""

    offer: dict[str, Any]
    """The result of ``WeightSender.offer``."""


class Receivers(WeightTransferEngine):  # type: ignore[misc]
    """Loads the weights that a transport receives into the worker's model."""

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        """Start without a receiver; the first update of each transport makes it."""
        self._receivers: dict[str, WeightReceiver] = {}

    def start_weight_update(self) -> None:
        """Prepare the layers on a GPU."""
        if self.device.type != "cpu":
            from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

            initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: UpdateInfo) -> None:
        """Load every parameter.

        Raises:
            RuntimeError: the transfer failed, or the model did not load all of it.
        """
        self.load(self._receive(update_info.offer))

    def load(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Load parameters by their names in the files of the model.

        Raises:
            RuntimeError: the model did not load all of them.
        """
        self.model.load_weights(weights)
        if self.device.type == "cpu":
            return_freed_memory()
        if left := [parameter for parameter, _ in weights]:
            raise RuntimeError(f"the model did not load {', '.join(left)}")

    def receive_adapter(self, offer: dict[str, Any]) -> None:
        """Load the LoRA adapter, in place of the one before: on a CPU merged into the weights.

        Raises:
            RuntimeError: the transfer failed.
            ValueError: the model has no layer for a part of the adapter.
        """
        if self.device.type == "cpu":
            self.load(merged_weights(Path(self.model_config.model), self._receive(offer), offer["adapter"]))
        else:
            load_adapter(self.model, self._receive(offer), offer["adapter"])

    def _receive(self, offer: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
        name = offer["transport"]
        if name not in self._receivers:
            parallel = self.parallel_config
            worker = parallel.data_parallel_index * parallel.world_size + parallel.rank
            self._receivers[name] = transport(name).receiver(worker, self.device)
        return self._receivers[name].receive(offer)

    def finish_weight_update(self) -> None:
        """Finish the layers on a GPU; on a CPU, pack the weights of experts again: all others are plain."""
        if self.device.type == "cpu":
            cpu_patches.repack_experts(self.model)
        else:
            from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

            finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Close the receivers."""
        for receiver in self._receivers.values():
            receiver.close()


class WorkerExtension:
    """Mixed into vLLM's worker; vLLM imports this module there because its configuration names this class."""

    weight_transfer_engine: Receivers

    def update_adapter(self, offer: dict[str, Any]) -> None:
        """Load the LoRA adapter that the learner sent. vLLM's own update would drop it when it finishes."""
        self.weight_transfer_engine.receive_adapter(offer)

    def merge_adapter(self, folder: str) -> None:
        """Merge the LoRA adapter of a folder into the weights of its model, which are loaded."""
        self.weight_transfer_engine.load(merged_folder(Path(folder)))


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


# An update in float32 would log one line per parameter of an engine in bfloat16.
logging.getLogger("vllm.model_executor.models.utils").addFilter(lambda record: not str(record.msg).startswith(ROUNDED))
if BACKEND not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine(BACKEND, Receivers)
if current_platform.is_cpu():
    cpu_patches.apply()
model_patches.apply()
if (parent := multiprocessing.parent_process()) is not None:
    # A killed actor cannot end the processes of vLLM, which hold the model.
    threading.Thread(target=_end_with, args=(parent,), name="end with the engine", daemon=True).start()
