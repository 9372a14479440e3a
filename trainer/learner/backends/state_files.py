"""The files of a model and of its optimizer in a checkpoint: Hugging Face format, read on any number of ranks.

* ``config.json`` and ``model.safetensors`` in the folder itself; of an adapted model, its adapter in PEFT's format
  instead of ``model.safetensors``.
* ``training/optimizer/*.safetensors``: AdamW's state, as tensors named ``parameter/moment``; from several ranks, one
  file per rank, with the offsets of its parts.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ..model.adapter import Adapter
from ..optimizer import optimizer_tensors, set_optimizer_tensors
from .ranks import Ranks

OPTIMIZER = "training/optimizer"


def save_state(folder: Path, model: Any, optimizer: torch.optim.Optimizer, adapter: Adapter | None = None) -> None:
    """Write the files from one process.

    Args:
        adapter: written instead of the weights of the model.

    Raises:
        OSError, SafetensorError: a file could not be written.
    """
    if adapter is None:
        model.save_pretrained(folder)
    else:
        adapter.save(folder, adapter.tensors(lambda value: value))
    (folder / OPTIMIZER).mkdir(parents=True)
    save_file(optimizer_tensors(model, optimizer), folder / OPTIMIZER / "model.safetensors")


def save_sharded_state(
    folder: Path, model: Any, optimizer: torch.optim.Optimizer, ranks: Ranks, adapter: Adapter | None = None
) -> None:
    """Write the files from all ranks; all call together. The first rank holds what is written in the host's memory.

    Args:
        adapter: written instead of the weights of the model.

    Raises:
        OSError, SafetensorError: a file could not be written.
    """
    from torch.distributed.checkpoint.api import CheckpointException  # takes a second to import
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    state = _gathered(model, ranks) if adapter is None else adapter.tensors(ranks.whole)
    failure = ""
    if ranks.rank == 0:
        try:
            if adapter is None:
                model.save_pretrained(folder, state_dict=state)
            else:
                adapter.save(folder, state)
            (folder / OPTIMIZER).mkdir(parents=True)
        except (OSError, SafetensorError) as error:
            failure = str(error)
    if failure := next(filter(None, ranks.gather(failure, "the report on the model's files")), ""):
        raise OSError(failure)
    tensors = optimizer_tensors(model, optimizer)
    if not tensors:
        return
    try:
        save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder / OPTIMIZER), save_distributed=True))
    except CheckpointException as error:
        raise OSError("; ".join(str(cause) for cause, _ in error.failures.values())) from error


def _gathered(model: Any, ranks: Ranks) -> dict[str, Tensor]:
    """Return the state of a sharded model by name, on the CPU; empty tensors on all ranks but the first."""
    whole: dict[int, Tensor] = {}  # a tied matrix is one tensor
    state = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in whole:
            gathered = ranks.whole(value.detach())
            whole[id(value)] = gathered.cpu().contiguous() if ranks.rank == 0 else torch.empty(0)
        state[name] = whole[id(value)]
    return state


def load_optimizer_files(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load the optimizer's state; with several ranks, each reads its parts and all call together."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader  # takes a second to import
    from torch.distributed.checkpoint.state_dict_loader import load

    if not any((folder / OPTIMIZER).glob("*.safetensors")):
        return  # saved before the first optimizer step
    reader = HuggingFaceStorageReader(str(folder / OPTIMIZER))
    stored = reader.read_metadata().state_dict_metadata
    parameters = dict(model.named_parameters())
    tensors = {}
    for key in stored:
        parameter = parameters[key.rpartition("/")[0]]
        scalar = torch.zeros((), dtype=torch.float32, device=parameter.device)
        tensors[key] = scalar if key.endswith("/step") else torch.zeros_like(parameter, requires_grad=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        load(tensors, storage_reader=reader)
    set_optimizer_tensors(model, optimizer, tensors)
