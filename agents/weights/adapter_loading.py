"""Load a LoRA adapter into a vLLM model in place of the one before.

vLLM computes the product of the adapter in each layer; the weights of the model stay as they were loaded. An engine
serves one adapter, under one id, so the caller clears what was computed with the one before: the prefix cache.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from vllm.lora.lora_model import LoRAModel
from vllm.lora.peft_helper import PEFTHelper
from vllm.lora.request import LoRARequest

ADAPTER_ID = 1


def policy_adapter(folder: str) -> LoRARequest:
    """Return the adapter that every request of an engine uses. vLLM reads ``folder`` if no adapter is loaded yet."""
    return LoRARequest("policy", ADAPTER_ID, folder)


def load_adapter(model: Any, tensors: Iterable[tuple[str, torch.Tensor]], settings: Mapping[str, Any]) -> None:
    """Replace the adapter of ``model``.

    Args:
        model: a model that vLLM prepared for LoRA.
        tensors: by PEFT's names; they are copied, because vLLM changes them in place.
        settings: PEFT's settings of the adapter: at least ``r``, ``lora_alpha`` and ``target_modules``.

    Raises:
        ValueError: vLLM has no layer for a tensor, and would ignore it.
    """
    manager = model.lora_manager
    helper = PEFTHelper.from_dict(dict(settings))
    helper.validate_legal(manager.lora_config)
    mapper = getattr(model, "hf_to_vllm_mapper", None)
    adapter = LoRAModel.from_lora_tensors(
        ADAPTER_ID,
        {name: value.clone() for name, value in tensors},
        helper,
        device="cpu",
        dtype=manager.lora_config.lora_dtype,
        weights_mapper=None if mapper is None else mapper.get_rename_mapper(),
    )
    manager.remove_adapter(ADAPTER_ID)
    manager.add_adapter(adapter)
    if unknown := sorted(adapter.loras.keys() - manager.modules.keys()):
        raise ValueError(f"vLLM has no layer for {len(unknown)} parts of the LoRA adapter, such as {unknown[0]}")
    manager.activate_adapter(ADAPTER_ID)
