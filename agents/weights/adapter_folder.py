"""A LoRA adapter on disk: a folder in PEFT's format, which names the folder of the model that it adapts."""

from pathlib import Path
from typing import Any

from ...errors import TurnwiseError
from ...user_files import read_json_object

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter instead of all weights of a model."""
    return (folder / ADAPTER_CONFIG).is_file()


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
