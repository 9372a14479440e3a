"""Samples packed end to end into passes of a bounded number of tokens, as tensors.

In a causal model the logits at position ``p`` predict token ``p + 1``; so a pass holds, for each trained token, the
flat position *before* it. A sample's first token has nothing before it and is never trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..algorithms.protocols import TrainSample


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward and backward pass. ``n`` tokens in all, ``m`` of them trained."""

    ids: Tensor
    """int64 (1, n)"""
    positions: Tensor
    """int64 (1, n), from 0 in each sequence"""
    lengths: Sequence[int]
    at: Tensor
    """int64 (m,): flat positions whose logits predict the trained tokens"""
    targets: Tensor
    """int64 (m,)"""
    behavior: Tensor
    """float32 (m,)"""
    advantages: Tensor
    """float32 (m,)"""
    weights: Tensor
    """float32 (m,)"""


def chunks(samples: Sequence[TrainSample], limit: int) -> list[list[TrainSample]]:
    """Samples in order, cut so that no chunk but one of a single long sample exceeds ``limit`` tokens."""
    out: list[list[TrainSample]] = []
    used = limit
    for sample in samples:
        size = len(sample.sample.tokens)
        if used + size > limit:
            out.append([])
            used = 0
        out[-1].append(sample)
        used += size
    return out


def pack(samples: Sequence[TrainSample], device: str = "cpu") -> Pass:
    """The tensors of one pass over these samples."""
    ids: list[int] = []
    positions: list[int] = []
    at: list[int] = []
    targets: list[int] = []
    behavior: list[float] = []
    advantages: list[float] = []
    weights: list[float] = []
    for one in samples:
        start = len(ids)
        tokens = one.sample.tokens
        for i, weight in enumerate(one.weights):
            if weight != 0.0 and i > 0:
                at.append(start + i - 1)
                targets.append(tokens[i])
                behavior.append(one.sample.logprobs[i])
                advantages.append(one.advantages[i])
                weights.append(weight)
        ids += tokens
        positions += range(len(tokens))
    return Pass(
        ids=torch.tensor([ids], device=device),
        positions=torch.tensor([positions], device=device),
        lengths=[len(one.sample.tokens) for one in samples],
        at=torch.tensor(at, dtype=torch.int64, device=device),
        targets=torch.tensor(targets, dtype=torch.int64, device=device),
        behavior=torch.tensor(behavior, dtype=torch.float32, device=device),
        advantages=torch.tensor(advantages, dtype=torch.float32, device=device),
        weights=torch.tensor(weights, dtype=torch.float32, device=device),
    )
