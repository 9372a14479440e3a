"""The folder of a model that is named by its folder or by its id on the Hugging Face hub.

A hub id is resolved by ``huggingface_hub``: from its cache where the cache has the model (``HF_HOME``,
``HF_HUB_CACHE``), else by a download, which ``HF_HUB_OFFLINE=1`` forbids. Only weights in safetensors are taken:
nothing is unpickled. A LoRA adapter is a folder in PEFT's format, which names the folder of the model that it adapts.
"""

import re
from pathlib import Path
from typing import Any

from ..base.process.start import absolute
from ..base.user_files import read_json_object
from ..errors import TurnwiseError

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
"""An organization and a name."""
FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
OTHER_FILES = ["*/*", "consolidated*"]
"""Files of other formats, in folders and with the names that publishers use."""
SLOWEST_BYTES_PER_S = 100 << 20
"""Speed of the slowest storage from which a model is to load in time: an allowance for network file systems."""

HUB_TIMEOUT_S = 5.0
"""Timeout of the first request to the hub; the later ones of its client retry for half a minute."""
NOT_REACHED = "the hub cannot be reached from this machine, and its cache lacks the model"

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
TOKENIZER_SUFFIXES = frozenset({".json", ".jinja", ".txt", ".model"})


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter instead of all weights of a model."""
    return (folder / ADAPTER_CONFIG).is_file()


def reads_images(folder: Path) -> bool:
    """Return whether the model of a folder has a part that reads images.

    Raises:
        TurnwiseError: its ``config.json`` cannot be read.
    """
    return "vision_config" in read_json_object(base_model(folder) / "config.json")


def adapter_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of an adapter by PEFT's names, such as ``r`` and ``lora_alpha``.

    Raises:
        TurnwiseError: they cannot be read.
    """
    return read_json_object(folder / ADAPTER_CONFIG)


def base_model(folder: Path) -> Path:
    """Return the folder of the weights that an adapter adapts; ``folder`` itself if it holds no adapter.

    Raises:
        TurnwiseError: the adapter names no model folder.
    """
    if not is_adapter(folder):
        return folder
    base = Path(str(adapter_settings(folder).get("base_model_name_or_path")))
    if not (base / "config.json").is_file():
        raise TurnwiseError(
            f"the adapter `{folder}` needs its base model `{base}`, which is no longer there: put it back, or set "
            f"`base_model_name_or_path` in `{ADAPTER_CONFIG}` to the folder that it was moved to"
        )
    return base


def tokenizer_files(model: Path) -> list[Path]:
    """List the tokenizer, chat template and generation settings in a model folder.

    The configurations of the model and of an adapter are excluded, and ``*.index.json``: it maps parameters to the
    original weight files, a checkpoint has different ones, and vLLM rejects an index with missing files.
    """
    return [
        file
        for file in model.iterdir()
        if file.is_file()
        and file.suffix in TOKENIZER_SUFFIXES
        and file.name not in ("config.json", ADAPTER_CONFIG)
        and not file.name.endswith(".index.json")
    ]


def loading_allowance_s(folder: Path) -> float:
    """Return the seconds by which timeouts grow that include a load of a model: its bytes at ``SLOWEST_BYTES_PER_S``.

    Args:
        folder: of the model, or of an adapter, whose model counts.
    """
    return sum(file.stat().st_size for file in base_model(folder).glob("*.safetensors")) / SLOWEST_BYTES_PER_S


def model_folder(model: str, key: str = "model.path") -> Path:
    """Return the folder of a model, downloaded first if it is a hub id that the cache lacks.

    Args:
        model: a Hugging Face folder, or a hub id such as ``Qwen/Qwen3-0.6B``. A folder takes precedence.
        key: the configuration key or option that names the model, for the error.

    Raises:
        TurnwiseError: there is neither such a folder nor such a model on the hub, it has no safetensors, or the folder
            holds an adapter.
    """
    folder = absolute(model)
    if (folder / "config.json").exists():
        return folder
    if is_adapter(folder):
        raise TurnwiseError(
            f"`{key}`: `{model}` holds a LoRA adapter: merge it first, with `turnwise model merge {model} FOLDER`"
        )
    if folder.exists() or not is_hub_id(model):
        raise TurnwiseError(
            f"`{key}`: `{model}` is neither a Hugging Face model folder (no config.json) nor a hub id, such as "
            "`Qwen/Qwen3-0.6B`"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    reachable = is_reachable(model)
    try:
        found = Path(
            snapshot_download(model, allow_patterns=FILES, ignore_patterns=OTHER_FILES, local_files_only=not reachable)
        )
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") if reachable else NOT_REACHED
        raise TurnwiseError(
            f"`{key}`: there is no folder `{model}`, and the hub id could not be resolved: {reason}. Download it "
            f"where the hub can be reached (`hf download {model}`) into the cache of this machine (`HF_HOME`), or "
            f"set `{key}` to its folder"
        ) from error
    for pattern, missing in {"config.json": "config.json", "*.safetensors": "weights in safetensors"}.items():
        if not any(found.glob(pattern)):
            raise TurnwiseError(f"`{key}`: the hub's `{model}` has no {missing} in `{found}`: use another model")
    return found


def is_reachable(model: str) -> bool:
    """Return whether the hub answers a request for a model, even by a refusal; False in its offline mode."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().model_info(model, timeout=HUB_TIMEOUT_S)
    except (HfHubHTTPError, HFValidationError):
        return True
    except Exception:  # noqa: BLE001 - the client of the hub raises errors of many types
        return False
    return True


def is_hub_id(model: str) -> bool:
    """Return whether a text has the form of a hub id."""
    return HUB_ID.fullmatch(model) is not None
