"""The LoRA adapter of a model, by PEFT: only its parameters are trained.

* The weights of the model stay frozen, so the model with the adapter turned off is the policy before training.
* A new adapter changes nothing: the second factor of each product is zero. The first one is drawn with a fixed seed, so
  every rank starts with the same adapter.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ....agents.model_folder import ADAPTER_WEIGHTS, base_model, is_adapter
from ....base.user_files import read_json_object
from ....errors import TurnwiseError
from ...config.sections import LoraConfig
from .vision_families import family_of

BASE_DIGEST = "training/base_model.json"
"""The file of a checkpoint with the hash."""
_HASHED_SUFFIXES = frozenset({".safetensors", ".bin"})


def model_digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a model's files of weights, in hex."""
    whole = hashlib.sha256()
    for file in sorted(one for one in folder.iterdir() if one.suffix in _HASHED_SUFFIXES):
        with file.open("rb") as opened:
            whole.update(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def write_base_digest(folder: Path, digest: str) -> None:
    """Write the hash of the model into the folder of an adapter."""
    (folder / BASE_DIGEST).parent.mkdir(exist_ok=True)
    (folder / BASE_DIGEST).write_text(json.dumps({"sha256": digest}))


def verify_base(folder: Path) -> None:
    """Raise if ``folder`` is an adapter whose model changed since the adapter was written. Reads all weights.

    Raises:
        TurnwiseError: the model is not there, or has other weights.
    """
    if not is_adapter(folder) or not (folder / BASE_DIGEST).is_file():
        return
    base = base_model(folder)
    if read_json_object(folder / BASE_DIGEST).get("sha256") != model_digest(base):
        raise TurnwiseError(
            f"the adapter `{folder}` was trained on other weights than those in `{base}`: put the files of its model "
            "back there"
        )


NAME = "default"
"""The name of the adapter inside the model; PEFT's files leave it out."""
ALL_LAYERS = "all-linear"
"""PEFT's word for every linear layer except the output head."""


class Adapter:
    """The adapter of one model."""

    def __init__(self, model: Any, lora: LoraConfig, base: Path) -> None:
        """Freeze ``model`` and add an adapter.

        Args:
            base: folder of the model, for the adapter's files.

        Raises:
            TurnwiseError: the model has no layer of the configured names.
        """
        from peft import LoraConfig as PeftConfig  # takes a second to import
        from peft import inject_adapter_in_model
        from peft.tuners.lora import LoraLayer

        self._model = model
        family = family_of(model)
        self._config = PeftConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            target_modules=lora.target_modules or ALL_LAYERS,
            exclude_modules=rf"(.*\.)?({'|'.join(family.parts)})\..*" if family else None,
            base_model_name_or_path=str(base.resolve()),
            task_type="CAUSAL_LM",
            inference_mode=True,
        )
        try:
            inject_adapter_in_model(self._config, model, NAME)
        except ValueError as error:
            raise TurnwiseError(f"`learner.lora.target_modules`: PEFT cannot adapt `{base}`: {error}") from error
        self._base = base
        self._base_digest = ""
        self._layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(is_trained(name))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for layer in self._layers:
                first = layer.lora_A[NAME].weight
                first.copy_(torch.nn.init.kaiming_uniform_(torch.empty(first.shape), math.sqrt(5), generator=generator))

    def store_frozen(self, dtype: torch.dtype) -> None:
        """Keep the weights of the frozen linear layers in ``dtype``, in which autocast computes their products: the
        products stay the same, bit for bit. Embeddings, the output head and norms stay in float32.
        """
        ends = self._model.get_input_embeddings(), self._model.get_output_embeddings()
        kept = {id(parameter) for end in ends if end is not None for parameter in end.parameters()}
        for module in self._model.modules():
            if isinstance(module, torch.nn.Linear) and not (id(module.weight) in kept or module.weight.requires_grad):
                module.to(dtype)

    @property
    def settings(self) -> dict[str, Any]:
        """Return PEFT's settings that decide the product of the adapter."""
        targets = self._config.target_modules
        return {
            "r": self._config.r,
            "lora_alpha": self._config.lora_alpha,
            "target_modules": targets if isinstance(targets, str) else sorted(targets or ()),
        }

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Return the parameters of the adapter by PEFT's names."""
        return [(peft_name(name), value) for name, value in self._model.named_parameters() if is_trained(name)]

    def load(self, folder: Path) -> None:
        """Load the parameters of an adapter's folder.

        Raises:
            TurnwiseError: the folder holds another adapter than this one.
        """
        stored = load_file(folder / ADAPTER_WEIGHTS)
        own = dict(self.named_parameters())
        if {name: value.shape for name, value in stored.items()} != {name: value.shape for name, value in own.items()}:
            raise TurnwiseError(
                f"the adapter `{folder}` has other layers or another rank than `learner.lora`: merge it with `turnwise "
                "model merge`, or restore `learner.lora`"
            )
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(stored[name])

    def save(self, folder: Path, tensors: Mapping[str, Tensor]) -> None:
        """Write the adapter in PEFT's format into an existing folder.

        Args:
            tensors: the parameters by PEFT's names.

        Raises:
            OSError, SafetensorError: a file could not be written.
        """
        self._base_digest = self._base_digest or model_digest(self._base)
        save_file(dict(tensors), folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
        self._config.save_pretrained(str(folder))
        write_base_digest(folder, self._base_digest)

    def tensors(self, whole: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """Return copies of the parameters by PEFT's names, on the CPU.

        Args:
            whole: returns a parameter as one tensor, where it is sharded.
        """
        return {
            name: whole(value.detach()).cpu().clone(memory_format=torch.contiguous_format)
            for name, value in self.named_parameters()
        }

    @contextmanager
    def turned_off(self) -> Iterator[None]:
        """Compute with the frozen weights alone inside the ``with`` block."""
        self._scale(0.0)
        try:
            yield
        finally:
            self._scale(1.0)

    def _scale(self, factor: float) -> None:
        for layer in self._layers:
            layer.set_scale(NAME, factor)


def is_trained(name: str) -> bool:
    """Return whether a parameter of an adapted model belongs to its adapter."""
    return f".{NAME}.weight" in name and (".lora_A." in name or ".lora_B." in name)


def peft_name(name: str) -> str:
    """Return the name of a parameter of the adapter in PEFT's files."""
    return "base_model.model." + name.replace(f".{NAME}.", ".")
