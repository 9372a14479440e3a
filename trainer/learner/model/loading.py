"""Load a Hugging Face causal language model for packed sequences."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from ....agents.weights.adapter_folder import base_model, is_adapter
from ....errors import TurnwiseError
from ...config.sections import LoraConfig
from . import packed_attention as attention
from .adapter import Adapter

logging.disable_progress_bar()


def load_model(folder: str | Path, device: str) -> Any:
    """Return the model of a Hugging Face folder in float32, for packed sequences, in evaluation mode.

    Raises:
        TurnwiseError: the folder has no weights in safetensors; no other format is read, because nothing is unpickled.
    """
    if not any(Path(folder).glob("*.safetensors")):
        raise TurnwiseError(f"`{folder}` has no weights in safetensors: convert them, or use another model")
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation=attention.NAME,
        local_files_only=True,
        use_safetensors=True,
    )
    return model.to(device).eval()


def load_policy(
    folder: Path, device: str, lora: LoraConfig | None, frozen: torch.dtype = torch.float32
) -> tuple[Any, Adapter | None]:
    """Return the model to train and its LoRA adapter; None if all weights are to be trained.

    Args:
        folder: of a model, or of an adapter with the same settings as ``lora``.
        frozen: data type of the linear layers that an adapter leaves as they are.

    Raises:
        TurnwiseError: the adapter does not suit the model or ``lora``.
    """
    base = base_model(folder)
    if lora is None:
        return load_model(base, device), None
    model = load_model(base, "cpu")  # the device has no room for weights in float32 that become smaller
    adapter = Adapter(model, lora, base)
    adapter.store_frozen(frozen)
    if is_adapter(folder):
        adapter.load(folder)
    return model.to(device), adapter
