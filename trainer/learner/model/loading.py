"""Load a Hugging Face causal language model for packed sequences, with every one of its tensors or not at all.

`transformers` draws the tensors that a file lacks at random, and continues.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig
from transformers.utils import logging

from ....agents.model_folder import ADAPTER_WEIGHTS, base_model, is_adapter, reads_images, tokenizer_files
from ....agents.weights.file_names import names_in_files
from ....base.user_files import UnreadableFile, read_json_object
from ....errors import TurnwiseError
from ...config.sections import LoraConfig
from . import packed_attention as attention
from .adapter import Adapter, verify_base
from .vision import freeze_vision

logging.disable_progress_bar()

FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Types of numbers in safetensors that hold weights."""
NAMED = 3
"""Tensors or files that an error names."""


def load_model(folder: str | Path, device: str) -> Any:
    """Return the model of a Hugging Face folder in float32, for packed sequences, in evaluation mode.

    Raises:
        TurnwiseError: the folder has no whole set of the model's tensors in safetensors; no other format is read,
            because nothing is unpickled.
    """
    implementation: Any = attention.NAME
    if reads_images(Path(folder)):  # the vision tower attends in both directions, within each image
        implementation = {"text_config": attention.NAME, "vision_config": "sdpa"}
    model = _load(Path(folder), attn_implementation=implementation)
    ends = {name: getattr(model.generation_config, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    # Published settings of sampling may be invalid, and then `save_pretrained` refuses to write them. The learner does
    # not sample; each function that writes a folder copies the published file.
    model.generation_config = GenerationConfig(**{f"{name}_token_id": value for name, value in ends.items()})
    return model.to(device).eval()


def refuse_incomplete(folder: Path) -> None:
    """Refuse a model of which tensors are missing, left over, or of another shape. Reads the headers of its files only.

    Raises:
        TurnwiseError: as ``load_model``.
    """
    _load(folder, device_map="meta")


def _load(folder: Path, **options: Any) -> Any:
    """Load a model with `transformers`, in float32."""
    names = refuse_damaged(weight_files(folder))
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)  # its report would be a table of many lines
    try:
        kind = AutoModelForImageTextToText if reads_images(folder) else AutoModelForCausalLM
        model, loading = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    except Exception as error:  # each class of transformers fails in its own way
        reason = str(error).strip().partition("\n")[0]
        if gaps := _gaps(names):
            reason = f"it lacks {_listed(gaps)}"
        raise TurnwiseError(f"`{folder}`: the model cannot be loaded: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)
    shapes = [
        f"{name} ({tuple(found)} instead of {tuple(needed)})" for name, found, needed in loading["mismatched_keys"]
    ]
    problems = {
        "lacks": loading["missing_keys"],
        "has tensors of another shape:": shapes,
        "has tensors that the model does not use:": loading["unexpected_keys"],
    }
    if wrong := [f"{what} {_listed(names)}" for what, names in problems.items() if names]:
        raise TurnwiseError(
            f"`{folder}` does not hold the model of its config.json: it {', and '.join(wrong)}. Get the files "
            "again, or correct `config.json`"
        )
    if model.config.tie_word_embeddings:
        _refuse_untied(folder, names, model)
    return model


def _refuse_untied(folder: Path, names: Iterable[str], model: Any) -> None:
    """Refuse an output matrix of its own where ``config.json`` ties it to the embeddings.

    `transformers` would use it, and vLLM would not.

    Args:
        names: of the tensors in the files.
    """
    from safetensors import safe_open

    stored = names_in_files(model, names)
    keys = getattr(model, "_tied_weights_keys", None) or {}
    tied = {stored[name]: stored[other] for name, other in keys.items() if name in stored and other in stored}
    found: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        with safe_open(file, "pt") as opened:
            found |= {name: opened.get_tensor(name) for name in opened.keys() if name in {*tied, *tied.values()}}  # noqa: SIM118
    for name, other in tied.items():
        if not torch.equal(found[name], found[other]):
            raise TurnwiseError(
                f"`{folder}`: `tie_word_embeddings` is true in its config.json, and `{name}` differs from `{other}`: "
                "set it to false"
            )


def refuse_damaged(files: Iterable[Path]) -> set[str]:
    """Return the names of the tensors in files of safetensors. Reads their headers only.

    Raises:
        TurnwiseError: a file is missing or damaged, holds numbers that are no weights, or holds a tensor of another.
    """
    from safetensors import SafetensorError, safe_open

    found: set[str] = set()
    for file in files:
        try:
            with safe_open(file, "pt") as opened:
                types = {name: opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise TurnwiseError(f"`{file}` is damaged or incomplete ({error}): get it again") from error
        if odd := {name: kind for name, kind in types.items() if kind not in FLOATS and name.endswith(".weight")}:
            name, kind = min(odd.items())
            raise TurnwiseError(f"`{file}` holds `{name}` as {kind}, quantized: use the same model in bfloat16")
        if twice := found & types.keys():
            raise TurnwiseError(f"`{file}` holds {_listed(twice)}, as another shard does: get the files again")
        found |= types.keys()
    return found


def weight_files(folder: Path) -> list[Path]:
    """Return the files of a model's weights: one, or the shards that its index names.

    Raises:
        TurnwiseError: there are none, the index cannot be read, a shard that it names is missing, or vLLM would read
            other files.
    """
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file() and index.is_file():
        raise TurnwiseError(
            f"`{folder}` has `{single.name}` and `{index.name}`, which the learner and the engine would choose between "
            "differently: delete the one that is not the model's"
        )
    if single.is_file():
        read = {single.name, ADAPTER_WEIGHTS}
        if others := [file.name for file in folder.glob("*.safetensors") if file.name not in read]:
            raise TurnwiseError(
                f"`{folder}` has `{single.name}` and {_listed(others)}, and the engine would read them all: move "
                "every other file of weights out of the folder"
            )
        return [single]
    if not index.is_file():
        parts = any(folder.glob("*.safetensors"))
        missing = "no `model.safetensors`, and no index of its shards" if parts else "no weights in safetensors"
        raise TurnwiseError(f"`{folder}` has {missing}: get its files again, or convert them")
    try:
        content = read_json_object(index)
        shards = sorted(set(content["weight_map"].values()))
        files = [folder / name for name in shards]
    except (UnreadableFile, LookupError, TypeError, AttributeError) as error:
        raise TurnwiseError(f"`{index}` is no index of shards ({error}): get it again") from error
    if not isinstance(content.get("metadata"), dict):
        raise TurnwiseError(
            f"`{index}` has no object `metadata`, without which `transformers` reads no shards: get it again, or add "
            '`"metadata": {}`'
        )
    if lost := [file.name for file in files if not file.is_file()]:
        raise TurnwiseError(f"`{folder}` lacks {_listed(lost)}, which its index names: get the files again")
    return files


def _gaps(names: Iterable[str]) -> list[str]:
    """Return the names that a full grid of layers and experts would have, and ``names`` lacks."""
    grids: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for name in names:
        grids[re.sub(r"\.\d+\.", ".{}.", name)].add(tuple(re.findall(r"(?<=\.)\d+(?=\.)", name)))
    return sorted(
        pattern.format(*place)
        for pattern, places in grids.items()
        for place in set(product(*(set(axis) for axis in zip(*places, strict=True)))) - places
    )


def _listed(names: Iterable[str]) -> str:
    """Return up to ``NAMED`` names, and how many there are."""
    found = sorted(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(f"`{name}`" for name in found[:NAMED]) + more


def load_policy(
    folder: Path,
    device: str,
    lora: LoraConfig | None,
    frozen: torch.dtype = torch.float32,
    *,
    trains_vision: bool = True,
) -> tuple[Any, Adapter | None]:
    """Return the model to train and its LoRA adapter; None if weights of the model are to be trained.

    Args:
        folder: of a model, or of an adapter with the same settings as ``lora``.
        frozen: data type of the linear layers that an adapter leaves as they are.
        trains_vision: whether the vision tower of a model that reads images is trained, without an adapter.

    Raises:
        TurnwiseError: the adapter does not suit the model or ``lora``.
    """
    base = base_model(folder)
    if lora is None:
        model = load_model(base, device)
        freeze_vision(model, whole=not trains_vision)
        return model, None
    model = load_model(base, "cpu")  # the device has no room for weights in float32 that become smaller
    adapter = Adapter(model, lora, base)
    adapter.store_frozen(frozen)
    if is_adapter(folder):
        adapter.load(folder)
    return model.to(device), adapter


def merge_adapter(adapter: Path, folder: Path) -> None:
    """Write the model with the adapter merged into its weights, in float32, and the tokenizer, into a new folder.

    Raises:
        TurnwiseError: ``adapter`` holds no adapter, its model is not there or has changed, or ``folder`` exists.
    """
    from peft import PeftModel  # takes a second to import

    if not is_adapter(adapter):
        raise TurnwiseError(f"`{adapter}` holds no LoRA adapter (no adapter_config.json): there is nothing to merge")
    verify_base(adapter)
    if folder.exists():
        raise TurnwiseError(f"`{folder}` exists: choose a new folder")
    model = load_model(base_model(adapter), "cpu")
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(folder)
    for file in tokenizer_files(adapter) or tokenizer_files(base_model(adapter)):
        shutil.copy2(file, folder / file.name)
