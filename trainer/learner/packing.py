"""Samples packed end to end into passes of a bounded number of tokens, as tensors.

In a causal model the logits at position ``p`` predict token ``p + 1``; so a pass holds, for each trained token, the
flat position *before* it. A sample's first token has nothing before it and is never trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..algorithms.groups import TrainSample


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
    lengths = [len(one.sample.tokens) for one in samples]
    starts = np.cumsum([0, *lengths[:-1]])
    trained = [np.flatnonzero(one.weights[1:]) + 1 for one in samples]

    def column(values: Sequence[NDArray[Any]], dtype: torch.dtype) -> Tensor:
        picked = [value[index] for value, index in zip(values, trained, strict=True)]
        return torch.as_tensor(np.concatenate(picked), dtype=dtype, device=device)

    at = np.concatenate([start + index - 1 for start, index in zip(starts, trained, strict=True)])
    tokens = [one.sample.tokens for one in samples]
    positions = np.concatenate([np.arange(length) for length in lengths])
    return Pass(
        ids=torch.as_tensor(np.concatenate(tokens), dtype=torch.int64, device=device)[None],
        positions=torch.as_tensor(positions, device=device)[None],
        lengths=lengths,
        at=torch.as_tensor(at, dtype=torch.int64, device=device),
        targets=column(tokens, torch.int64),
        behavior=column([one.sample.logprobs for one in samples], torch.float32),
        advantages=column([one.advantages for one in samples], torch.float32),
        weights=column([one.weights for one in samples], torch.float32),
    )
