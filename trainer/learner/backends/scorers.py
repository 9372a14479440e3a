"""Load the models of a learner: its policy and its reference policy, sharded over the ranks.

A rank that shards a model holds the whole of it first, in the memory of its host. The ranks of one host therefore load
one after the other, and a device receives its rank's part alone.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ....errors import TurnwiseError
from ...config.sections import LearnerConfig
from ..model.activation_checkpointing import checkpoint_activations
from ..model.adapter import Adapter
from ..model.loading import load_model, load_policy
from ..model.token_scores import TokenScorer
from .ranks import Ranks


def policy_scorer(
    folder: Path, config: LearnerConfig, temperature: float, ranks: Ranks
) -> tuple[TokenScorer, Adapter | None]:
    """Return the model to train and its LoRA adapter; None if all weights are to be trained.

    Raises:
        TurnwiseError: the model cannot be loaded, or the adapter does not suit it or ``config.lora``.
    """

    def load() -> tuple[TokenScorer, Adapter | None]:
        dtype = getattr(torch, config.dtype)
        frozen = torch.float32 if ranks.is_sharded else dtype  # FSDP shards weights of one type
        model, adapter = load_policy(folder, _device(config, ranks), config.lora, frozen)
        if config.activation_checkpointing:
            checkpoint_activations(model)
        scorer = TokenScorer(model, temperature, dtype)
        ranks.shard(scorer)
        return scorer, adapter

    return ranks.in_turn(load, "the load of the model")


def reference_scorer(folder: Path, config: LearnerConfig, temperature: float, ranks: Ranks) -> TokenScorer:
    """Return a frozen model.

    Raises:
        TurnwiseError: ``folder`` is not a model folder.
    """
    if not (folder / "config.json").exists():
        raise TurnwiseError(
            f"the reference policy `{folder}` is not a Hugging Face model folder (no config.json): set "
            "`model.reference` to one"
        )

    def load() -> TokenScorer:
        model = load_model(folder, _device(config, ranks)).requires_grad_(False)
        scorer = TokenScorer(model, temperature, getattr(torch, config.dtype))
        ranks.shard(scorer)
        return scorer

    return ranks.in_turn(load, "the load of the reference policy")


def _device(config: LearnerConfig, ranks: Ranks) -> str:
    return "cpu" if ranks.is_sharded else config.device
