"""Supervised steps on examples with soft targets, for the format warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .model.token_scores import TokenScorer


@dataclass(slots=True)
class SftExample:
    """One episode as tokens and targets; both lists have the same length."""

    ids: list[int]
    targets: list[dict[int, float] | None]
    """Per action token, the distribution it was drawn from; None for every other token."""


def sft_loss(scorer: TokenScorer, batch: Sequence[SftExample], observation_weight: float) -> Tensor:
    """Return the cross-entropy against the soft targets of actions plus the weighted next-token loss on observations.

    Each term is a mean over its tokens.
    """
    device = scorer.model.device
    lengths = [len(one.ids) for one in batch]
    ids = torch.tensor([token for one in batch for token in one.ids], device=device)
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    logp = scorer.logits(ids, positions, lengths).log_softmax(-1)
    targets = [target for one in batch for target in one.targets]
    first = positions == 0
    action_rows = [(row - 1, target) for row, target in enumerate(targets) if target is not None]
    rows = torch.tensor([row for row, target in action_rows for _ in target])
    tokens = torch.tensor([token for _, target in action_rows for token in target])
    mass = torch.tensor([share for _, target in action_rows for share in target.values()], device=device)
    action: Tensor = -(mass * logp[rows, tokens]).sum() / max(len(action_rows), 1)
    observed = torch.tensor([row for row, target in enumerate(targets) if target is None and not first[row]])
    if not observation_weight or not len(observed):
        return action
    observation: Tensor = logp[observed - 1, ids[observed]].mean()
    return action - observation_weight * observation
