"""Merge a LoRA adapter into its model: a folder that every tool of the field loads, as any other checkpoint."""

import shutil
from pathlib import Path

from ....agents.weights.adapter_folder import base_model, is_adapter
from ....errors import TurnwiseError
from ..checkpoint import tokenizer_files
from .adapter_base import verify_base
from .loading import load_model


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
