"""The recipe of an update: what is the same for its whole batch, and what decides the bits of its sums."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...config.sections import LearnerConfig


class Recipe(BaseModel):
    """Stored with each update, as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr_progress: float
    """Share of the learning rate's schedule that had passed; it may depend on the clock."""
    sources: Sequence[str] = ()
    """The sources of the trained tokens; details hold indices in this list."""
    task_success: Sequence[float | None] = ()
    """Per group of the batch, the share of its task's episodes that succeeded; None if the task has none."""
    states: dict[str, Any] = {}
    """The states of the loss and of the proximal policy before the update, by slot; empty ones are left out."""
    device: str
    """Torch device of the learner."""
    num_threads: int
    ranks: int = 1
    """Ranks that trained the model together."""
    max_tokens_per_micro_batch: int
    """With ``num_threads``, it decides the order of sums; a resumed run may have another one."""
    numerics: str
    """The library and the instruction set that computed the update."""


def numerics() -> str:
    """Return what else decides the bits of a sum on this machine: the version of torch and its instruction set."""
    import torch

    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"


def new_recipe(config: LearnerConfig, lr_progress: float, states: dict[str, Any]) -> Recipe:
    """Return the recipe of an update by a learner on this machine; ``record_update`` adds the facts of its batch."""
    return Recipe(
        lr_progress=lr_progress,
        states=states,
        device=config.device,
        num_threads=config.num_threads,
        ranks=config.num_ranks,
        max_tokens_per_micro_batch=config.max_tokens_per_micro_batch,
        numerics=numerics(),
    )
