"""Pack samples end to end, without padding, into micro-batches of a bounded number of tokens.

In a causal model the logits at position ``p`` predict token ``p + 1``. A micro-batch therefore holds the flat position
*before* each trained token. The first token of a sample has no position before it and is never trained on.
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
class MicroBatch:
    """The tensors of one forward and backward pass over ``n`` tokens, ``m`` of them trained."""

    token_ids: Tensor
    """int64 (1, n)"""
    position_ids: Tensor
    """int64 (1, n), counted from 0 in each sequence"""
    lengths: Sequence[int]
    """Tokens per sequence; the sum is ``n``."""
    logit_positions: Tensor
    """int64 (m,): flat positions whose logits predict the trained tokens"""
    targets: Tensor
    """int64 (m,): ids of the trained tokens"""
    behavior_logprobs: Tensor
    """float32 (m,)"""
    advantages: Tensor
    """float32 (m,)"""
    weights: Tensor
    """float32 (m,)"""


def split_micro_batches(samples: Sequence[TrainSample], max_tokens: int) -> list[list[TrainSample]]:
    """Return the samples in order, in lists of at most ``max_tokens`` tokens. A longer sample is a list by itself."""
    parts: list[list[TrainSample]] = []
    used = max_tokens
    for sample in samples:
        size = len(sample.sample.tokens)
        if used + size > max_tokens:
            parts.append([])
            used = 0
        parts[-1].append(sample)
        used += size
    return parts


def pack(samples: Sequence[TrainSample], device: str = "cpu") -> MicroBatch:
    """Return the micro-batch of these samples, in order."""
    lengths = [len(one.sample.tokens) for one in samples]
    starts = np.cumsum([0, *lengths[:-1]])
    trained = [np.flatnonzero(one.weights[1:]) + 1 for one in samples]

    def column(values: Sequence[NDArray[Any]], dtype: torch.dtype) -> Tensor:
        picked = [value[index] for value, index in zip(values, trained, strict=True)]
        return torch.as_tensor(np.concatenate(picked), dtype=dtype, device=device)

    before = np.concatenate([start + index - 1 for start, index in zip(starts, trained, strict=True)])
    tokens = [one.sample.tokens for one in samples]
    positions = np.concatenate([np.arange(length) for length in lengths])
    return MicroBatch(
        token_ids=torch.as_tensor(np.concatenate(tokens), dtype=torch.int64, device=device)[None],
        position_ids=torch.as_tensor(positions, device=device)[None],
        lengths=lengths,
        logit_positions=torch.as_tensor(before, dtype=torch.int64, device=device),
        targets=column(tokens, torch.int64),
        behavior_logprobs=column([one.sample.logprobs for one in samples], torch.float32),
        advantages=column([one.advantages for one in samples], torch.float32),
        weights=column([one.weights for one in samples], torch.float32),
    )
