"""Shorten an optimizer step that moves the policy too far."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MAX_BACKTRACKS = 3
"""Most times that one optimizer step is shortened."""
TOLERANCE = 0.05
"""Share of the bound by which a step may exceed it. A shortened step lies on the bound, give or take; without a
tolerance it would be shortened by nothing and measured again, which costs a forward pass."""


def backtrack(parameters: Sequence[Tensor], before: Sequence[Tensor], kl: Callable[[], float], max_kl: float) -> float:
    """Shorten an optimizer step that exceeds the KL bound, and return the scale of the step that remains.

    A backtracking line search as in TRPO (Schulman et al. 2015, arXiv:1502.05477), on the step's own tokens. The KL
    divergence grows with the square of a small step, so the scale is the square root of ``max_kl / kl``. After a large
    step one search falls short, so it is repeated.

    Args:
        parameters: changed in place.
        before: the parameters before the step.
        kl: returns the divergence that the present parameters cause, in nats per token.
    """
    scale = 1.0
    for _ in range(MAX_BACKTRACKS):
        divergence = kl()
        if divergence <= (1 + TOLERANCE) * max_kl:
            break
        factor = math.sqrt(max_kl / divergence)
        scale *= factor
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.lerp_(value, 1 - factor)
    return scale
