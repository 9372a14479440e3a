"""The files of a model and of its optimizer in a checkpoint: Hugging Face format, read on any number of ranks.

* ``model.safetensors`` and ``config.json`` in the folder itself.
* ``training/optimizer/*.safetensors``: AdamW's state, as tensors named ``parameter/moment``; from several ranks, one
  file per rank, with the offsets of its parts.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ..optimization.adamw_state import optimizer_tensors, set_optimizer_tensors

OPTIMIZER = "training/optimizer"


def save_state(folder: Path, model: Any, optimizer: torch.optim.Optimizer) -> None:
    """Write the files from one process.

    Raises:
        OSError, SafetensorError: a file could not be written.
    """
    model.save_pretrained(folder)
    (folder / OPTIMIZER).mkdir(parents=True)
    save_file(optimizer_tensors(model, optimizer), folder / OPTIMIZER / "model.safetensors")


def load_optimizer_files(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load the optimizer's state; with several ranks, each reads its parts and all call together."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader  # takes a second to import
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(folder / OPTIMIZER))
    stored = reader.read_metadata().state_dict_metadata
    parameters = dict(model.named_parameters())
    tensors = {}
    for key in stored:
        parameter = parameters[key.rpartition("/")[0]]
        scalar = torch.zeros((), dtype=torch.float32, device=parameter.device)
        tensors[key] = scalar if key.endswith("/step") else torch.zeros_like(parameter, requires_grad=False)
    if not tensors:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        load(tensors, storage_reader=reader)
    set_optimizer_tensors(model, optimizer, tensors)
