"""Supervised steps on examples with soft targets, for the warm-up."""

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


def sft_loss(
    scorer: TokenScorer,
    batch: Sequence[SftExample],
    observation_weight: float,
    totals: tuple[int, int] | None = None,
) -> Tensor:
    """Return the cross-entropy against the soft targets of actions plus the weighted next-token loss on observations,
    without the tokens of images.

    Each term is a mean over its tokens; of a part of a batch, over those of the whole batch (``token_counts``).
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
    actions, observations = totals or token_counts(batch)
    action: Tensor = -(mass * logp[rows, tokens]).sum() / max(actions, 1)
    texts = [text for one in batch for text in _texts(one)]
    observed = torch.tensor(
        [row for row, target in enumerate(targets) if target is None and texts[row] and not first[row]]
    )
    if not observation_weight or not len(observed):
        return action
    observation: Tensor = logp[observed - 1, ids[observed]].sum() / observations
    return action - observation_weight * observation


def _texts(example: SftExample) -> list[bool]:
    """Return whether each token is none of an image."""
    return [
        not any(span.offset <= place < span.offset + span.length for span in example.images)
        for place in range(len(example.ids))
    ]


def token_counts(batch: Sequence[SftExample]) -> tuple[int, int]:
    """Return the tokens of actions and those of observations that a loss is a mean over."""
    targets = [target for one in batch for target in one.targets]
    texts = [(target, text) for one in batch for target, text in list(zip(one.targets, _texts(one), strict=True))[1:]]
    return sum(map(bool, targets)), sum(target is None and text for target, text in texts)


class SupervisedSteps:
    """Takes supervised optimizer steps with AdamW."""

    def __init__(self, scorer: TokenScorer, max_tokens: int, ranks: int = 1) -> None:
        """Train the model of ``scorer`` in passes of ``max_tokens`` tokens, or of one example. The gradient is the sum
        over ``ranks``, each of which has all examples."""
        self._scorer = scorer
        self._max_tokens = max_tokens
        self._ranks = ranks
        self._optimizer = torch.optim.AdamW(scorer.parameters(), betas=BETAS, weight_decay=0.0, fused=True)

    def step(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one step and return the loss before it."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.zero_grad(set_to_none=True)
        total, counts = 0.0, token_counts(examples)
        for part in self._parts(examples):
            loss = sft_loss(self._scorer, part, observation_weight, counts)
            (loss / self._ranks).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(self._scorer.parameters(), MAX_GRAD_NORM)
        self._optimizer.step()
        return total

    def _parts(self, examples: Sequence[SftExample]) -> list[list[SftExample]]:
        parts, tokens = list[list[SftExample]](), self._max_tokens
        for one in examples:
            if tokens + len(one.ids) > self._max_tokens:
                parts.append([])
                tokens = 0
            parts[-1].append(one)
            tokens += len(one.ids)
        return parts
