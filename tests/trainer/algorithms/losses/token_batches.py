"""Token batches from lists of numbers, for tests of losses."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from turnwise.trainer.algorithms.losses.base import Need, TokenBatch, Totals


def token_batch(
    current: Sequence[float],
    proximal: Sequence[float],
    behavior: Sequence[float],
    advantages: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    sequence: Sequence[int] | None = None,
    episodes: Sequence[int] | None = None,
    needed: Mapping[Need, Tensor] | None = None,
) -> TokenBatch:
    """Return one micro-batch that is the whole optimizer step, in float64.

    Args:
        current, proximal, behavior: probabilities, not their logarithms.
        sequence: index of each token's sequence; by default, all tokens are one sequence.
        episodes: index of each sequence's episode; by default, each sequence is one episode.
        needed: by default, an entropy of 0.
    """
    size = len(current)
    weight = torch.tensor(weights or [1.0] * size, dtype=torch.float64)
    sequences = torch.tensor(sequence or [0] * size)
    lengths = torch.bincount(sequences)
    episode = torch.tensor(episodes or range(len(lengths)))
    by_episode = torch.bincount(episode, lengths).long()
    zeros = torch.zeros(size, dtype=torch.int64)
    return TokenBatch(
        logprobs=torch.tensor(current, dtype=torch.float64).log().requires_grad_(),
        proximal=torch.tensor(proximal, dtype=torch.float64).log(),
        behavior=torch.tensor(behavior, dtype=torch.float64).log(),
        advantages=torch.tensor(advantages, dtype=torch.float64),
        weights=weight,
        sequence=sequences,
        turn=zeros,
        group=zeros,
        source=zeros,
        staleness=zeros,
        lengths=lengths,
        episode_lengths=by_episode[episode],
        totals=Totals(int((weight > 0).sum()), len(by_episode), 1),
        needed=needed or {Need.ENTROPY: zeros.double(), Need.ENTROPY_GRADIENT: zeros.double()},
    )
