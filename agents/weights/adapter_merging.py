"""Merge a LoRA adapter into the weights of an engine on a CPU, in place of the adapter before.

vLLM computes an adapter apart from the weights of its layer, which takes longer than the layer itself on a CPU. Here
each adapted matrix becomes ``W + alpha / r * B A`` in float32, where ``W`` is read from the file of the model at each
update: the weights in the engine are those of an earlier adapter.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from .adapter_folder import ADAPTER_WEIGHTS, adapter_settings, base_model

PREFIX = "base_model.model."
"""PEFT's names of the parts of an adapter begin so; the name of the layer follows."""
PARTS = {".lora_A.weight": 0, ".lora_B.weight": 1}


def merged_weights(
    model: Path, tensors: Iterable[tuple[str, torch.Tensor]], settings: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each adapted matrix by its name in the files of ``model``, in float32.

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
        for name, (first, second) in pairs.items():
            if first is None or second is None:
                raise ValueError(f"the LoRA adapter has one of the two parts of `{name}`: both are needed")
            if name not in owners:
                raise ValueError(f"`{model}` has no tensor `{name}`, which the LoRA adapter adapts")
            weight = owners[name].get_tensor(name).float()
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
