"""Provenance of an update: facts that the store holds nowhere else and that repeating the update needs.

Invariant: with the stored trajectories, the provenance determines the update. It holds results (advantages, weights,
the order of the samples), not the state of the components that computed them, so any method can be repeated.

* The recipe is the same for the whole batch. To record another fact per update, add a field to ``Recipe``.
* The detail of a batch item holds the values per token of the samples that one trajectory has in the batch. To record
  another fact per token, add an array to it.

An *action token* of a sample is one with a source: the policy sampled it, or its turn came from elsewhere. The stored
arrays have one value per sample (``position``, ``group``, ``path``, ``tokens``) or per action token. An array whose
values all equal its value in ``DEFAULTS`` is left out. Log-probabilities are float16 differences: to those at sampling
(``logprob``; 0 where no policy sampled the token), and of the proximal policy to ``logprob``. ``entropy`` holds float16
entropies, where the loss computes them. A re-training computes all of them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from ....records import Source
from ....store.content.arrays import pack, unpack
from ...config.sections import LearnerConfig

DEFAULTS = {"path": 0, "source": 0, "weight": 1, "proximal": 0}
"""The arrays that are left out where they hold this value only."""
RATE_KEYS = ("learning_rate", "min_learning_rate", "lr_schedule", "lr_warmup_steps")
"""The keys of ``LearnerConfig`` that decide the learning rate of an update."""
LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class SampleDetail:
    """One sample in a batch; every array has one value per action token of the sample."""

    position: int
    """Index in the batch."""
    group: int
    """Index of the sample's group among those of the batch (``batch_group.idx``)."""
    path: int
    """Index among the samples of the trajectory (``learner.samples``)."""
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    """0 where the token is not trained on."""
    sources: NDArray[np.uint8]
    """Indices in ``Recipe.sources``."""
    logprob_changes: NDArray[np.float16]
    """Log-probability in the update minus that at sampling; 0 where not trained on."""
    proximal_changes: NDArray[np.float16]
    """Log-probability of the proximal policy minus that in the update; 0 where not trained on."""
    entropies: NDArray[np.float16]
    """Entropies in the update, in nats; NaN where not trained on, and everywhere if the loss computes none."""


def half(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Return float16 values, those beyond its range as its largest numbers."""
    return np.clip(values, -LARGEST, LARGEST).astype(np.float16)


def encode_details(details: Sequence[SampleDetail]) -> bytes:
    """Return the samples of one trajectory as bytes; there is at least one."""
    arrays: dict[str, NDArray[Any]] = {
        "position": np.asarray([detail.position for detail in details], np.int32),
        "group": np.asarray([detail.group for detail in details], np.int32),
        "path": np.asarray([detail.path for detail in details], np.int32),
        "tokens": np.asarray([len(detail.weights) for detail in details], np.int32),
        "advantage": np.concatenate([detail.advantages for detail in details]).astype(np.float32),
        "weight": np.concatenate([detail.weights for detail in details]).astype(np.float32),
        "source": np.concatenate([detail.sources for detail in details]).astype(np.uint8),
        "logprob": np.concatenate([detail.logprob_changes for detail in details]).astype(np.float16),
        "proximal": np.concatenate([detail.proximal_changes for detail in details]).astype(np.float16),
    }
    entropies = np.concatenate([detail.entropies for detail in details]).astype(np.float16)
    if not np.isnan(entropies).all():
        arrays["entropy"] = entropies
    return pack({name: one for name, one in arrays.items() if name not in DEFAULTS or np.any(one != DEFAULTS[name])})


def decode_details(data: bytes) -> list[SampleDetail]:
    """Return the samples that ``encode_details`` received.

    Raises:
        ValueError: ``data`` was altered, or written by another version of turnwise.
    """
    arrays = unpack(data)
    try:
        sizes = arrays["tokens"]
        total = int(sizes.sum())
        positions, groups = arrays["position"], arrays["group"]
        paths = arrays.get("path", np.zeros(len(sizes), np.int32))
        columns = [
            arrays["advantage"],
            arrays.get("weight", np.ones(total, np.float32)),
            arrays.get("source", np.zeros(total, np.uint8)),
            arrays["logprob"],
            arrays.get("proximal", np.zeros(total, np.float16)),
            arrays.get("entropy", np.full(total, np.nan, np.float16)),
        ]
    except KeyError as error:
        raise ValueError(f"the detail of a batch item has no array {error}") from error
    if {len(positions), len(groups), len(paths)} != {len(sizes)} or {len(column) for column in columns} != {total}:
        raise ValueError("the arrays in the detail of a batch item have other lengths than its samples")
    parts = zip(*(np.split(column, np.cumsum(sizes)[:-1]) for column in columns), strict=True)
    heads = zip(positions.tolist(), groups.tolist(), paths.tolist(), parts, strict=True)
    return [SampleDetail(position, group, path, *values) for position, group, path, values in heads]


def importance_weights(details: Sequence[SampleDetail], sources: Sequence[str]) -> NDArray[np.float64]:
    """Return proximal/behavior of the trained tokens that the policy sampled, before its cap, to the precision of the
    stored differences. A token from elsewhere has no log-probability at sampling, and is left out.

    Args:
        sources: ``Recipe.sources``.
    """
    sampled = [place for place, name in enumerate(sources) if name == Source.POLICY.value]
    parts = [one.logprob_changes.astype(np.float64) + one.proximal_changes.astype(np.float64) for one in details]
    kept = [part[(one.weights != 0) & np.isin(one.sources, sampled)] for part, one in zip(parts, details, strict=True)]
    return np.exp(np.concatenate(kept)) if kept else np.zeros(0)


class Recipe(BaseModel):
    """Stored with each update, as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr_progress: float
    """Share of the learning rate's schedule that had passed; it may depend on the clock."""
    learning_rate: dict[str, Any]
    """The values of ``RATE_KEYS``, which a resume may change."""
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
        learning_rate={key: getattr(config, key) for key in RATE_KEYS},
        states=states,
        device=config.device,
        num_threads=config.num_threads,
        ranks=config.num_ranks,
        max_tokens_per_micro_batch=config.max_tokens_per_micro_batch,
        numerics=numerics(),
    )
