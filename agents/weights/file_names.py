"""The names of a model's tensors in its files, which differ from those in its class for older families."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any


def names_in_files(model: Any, names: Iterable[str]) -> dict[str, str]:
    """Return the name of each tensor in a file, by its name in the class of `transformers`.

    Args:
        model: of the class; its weights are not read.
        names: in the files.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightRenaming, rename_source_key

    renamings = [one for one in get_model_conversion_mapping(model) if isinstance(one, WeightRenaming)]
    return {rename_source_key(name, renamings, [])[0]: name for name in names}


def empty_model(folder: Path) -> Any:
    """Return the model of a folder that reads images, without memory for its weights."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(folder, local_files_only=True))
