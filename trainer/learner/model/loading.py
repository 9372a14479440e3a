"""Load a Hugging Face causal language model for packed sequences."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from . import packed_attention as attention

logging.disable_progress_bar()


def load_model(folder: str | Path, device: str) -> Any:
    """Return the model of a Hugging Face folder in float32, for packed sequences, in evaluation mode."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention.NAME, local_files_only=True
    )
    return model.to(device).eval()
