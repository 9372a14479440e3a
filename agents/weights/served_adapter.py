"""A LoRA adapter in an engine, in place of the adapter before.

On a GPU, vLLM computes the product of the adapter in each layer; the weights of the model stay as they were loaded. An
engine serves one adapter, under one id, so the caller clears what was computed with the one before: the prefix cache.

On a CPU that would take longer than the layer itself, so the adapter is merged: each adapted matrix becomes
``W + alpha / r * B A`` in float32, where ``W`` is read from the file of the model at each update: the weights in the
engine are those of an earlier adapter.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from ..model_folder import ADAPTER_WEIGHTS, adapter_settings, base_model, reads_images
from .file_names import empty_model, names_in_files

ADAPTER_ID = 1
PREFIX = "base_model.model."
"""PEFT's names of the parts of an adapter begin so; the name of the layer follows."""
PARTS = {".lora_A.weight": 0, ".lora_B.weight": 1}


def policy_adapter(folder: str) -> Any:
    """Return vLLM's request for the adapter that every request of an engine uses; ``folder`` is read if no adapter is
    loaded yet."""
    from vllm.lora.request import LoRARequest

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
    from vllm.lora.lora_model import LoRAModel
    from vllm.lora.peft_helper import PEFTHelper

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


def merged_weights(
    model: Path, tensors: Iterable[tuple[str, torch.Tensor]], settings: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each adapted matrix by its name in the class of `transformers`, in float32.

    Args:
        model: folder of the model, in safetensors.
        tensors: the parts of the adapter by PEFT's names.
        settings: PEFT's settings of the adapter: at least ``r`` and ``lora_alpha``.

    Raises:
        ValueError: a part of the adapter belongs to no matrix of the model, or its layer lacks the other part.
    """
    scale = settings["lora_alpha"] / settings["r"]
    pairs: dict[str, list[torch.Tensor | None]] = {}
    for name, value in tensors:
        layer, place = _place(name)
        pairs.setdefault(f"{layer}.weight", [None, None])[place] = value
    with ExitStack() as stack:
        files = [stack.enter_context(safe_open(one, framework="pt")) for one in sorted(model.glob("*.safetensors"))]
        owners = {name: file for file in files for name in file.keys()}  # noqa: SIM118 - not a mapping
        stored = names_in_files(empty_model(model), owners) if reads_images(model) else {name: name for name in owners}
        for name, (first, second) in pairs.items():
            if first is None or second is None:
                raise ValueError(f"the LoRA adapter has one of the two parts of `{name}`: both are needed")
            if name not in stored:
                raise ValueError(f"`{model}` has no tensor `{name}`, which the LoRA adapter adapts")
            weight = owners[stored[name]].get_tensor(stored[name]).float()
            yield name, weight.addmm_(second.float(), first.float(), alpha=scale)


def merged_folder(adapter: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the adapted matrices of an adapter's folder, as ``merged_weights`` does.

    Raises:
        TurnwiseError: the folder names no model.
        ValueError: the adapter does not fit its model.
    """
    with safe_open(adapter / ADAPTER_WEIGHTS, framework="pt") as file:
        tensors = [(name, file.get_tensor(name)) for name in file.keys()]  # noqa: SIM118 - not a mapping
    yield from merged_weights(base_model(adapter), tensors, adapter_settings(adapter))


def _place(name: str) -> tuple[str, int]:
    """Return the layer of a part of an adapter, and which of the two factors the part is.

    Raises:
        ValueError: it is not a part of a LoRA adapter.
    """
    for suffix, place in PARTS.items():
        if name.startswith(PREFIX) and name.endswith(suffix):
            return name.removeprefix(PREFIX).removesuffix(suffix), place
    raise ValueError(f"`{name}` is not a part of a LoRA adapter of linear layers")
