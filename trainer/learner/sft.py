"""Supervised steps on examples with soft targets, for the format warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...records import SampleImage
from .model.token_scores import TokenScorer
from .packing import flat_images

BETAS = (0.9, 0.95)
"""AdamW's decay rates of the two moments."""
MAX_GRAD_NORM = 1.0
"""Gradients are clipped to this norm."""


@dataclass(slots=True)
class SftExample:
    """One context of an episode as tokens and targets; both lists have the same length."""

    ids: list[int]
    targets: list[dict[int, float] | None]
    """Per action token, the distribution it was drawn from; None per token of an observation; an empty distribution per
    token that is context alone."""
    images: Sequence[SampleImage] = ()
    """The images among the tokens, in their order."""


def sft_loss(scorer: TokenScorer, batch: Sequence[SftExample], observation_weight: float) -> Tensor:
    """Return the cross-entropy against the soft targets of actions plus the weighted next-token loss on observations,
    without the tokens of images.

    Each term is a mean over its tokens.
    """
    device = scorer.model.device
    lengths = [len(one.ids) for one in batch]
    ids = torch.tensor([token for one in batch for token in one.ids], device=device)
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    images = flat_images([one.images for one in batch], lengths)
    logp = scorer.logits(ids, positions, lengths, images).log_softmax(-1)
    targets = [target for one in batch for target in one.targets]
    first = positions == 0
    action_rows = [(row - 1, target) for row, target in enumerate(targets) if target]
    rows = torch.tensor([row for row, target in action_rows for _ in target])
    tokens = torch.tensor([token for _, target in action_rows for token in target])
    mass = torch.tensor([share for _, target in action_rows for share in target.values()], device=device)
    action: Tensor = -(mass * logp[rows, tokens]).sum() / max(len(action_rows), 1)
    texts = [
        not any(span.offset <= place < span.offset + span.length for span in one.images)
        for one in batch
        for place in range(len(one.ids))
    ]
    observed = torch.tensor(
        [row for row, target in enumerate(targets) if target is None and texts[row] and not first[row]]
    )
    if not observation_weight or not len(observed):
        return action
    observation: Tensor = logp[observed - 1, ids[observed]].mean()
    return action - observation_weight * observation


class SupervisedSteps:
    """Takes supervised optimizer steps with AdamW."""

    def __init__(self, scorer: TokenScorer, ranks: int = 1) -> None:
        """Train the model of ``scorer``. The gradient is the sum over ``ranks``, each of which has all examples."""
        self._scorer = scorer
        self._ranks = ranks
        self._optimizer = torch.optim.AdamW(scorer.parameters(), betas=BETAS, weight_decay=0.0, fused=True)

    def step(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one step and return the loss before it."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        loss = sft_loss(self._scorer, examples, observation_weight)
        self._optimizer.zero_grad(set_to_none=True)
        (loss / self._ranks).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._scorer.parameters(), MAX_GRAD_NORM)
        self._optimizer.step()
        return float(loss.detach())
