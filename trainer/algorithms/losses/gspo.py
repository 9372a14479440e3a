"""Group Sequence Policy Optimization (Zheng et al. 2025, arXiv:2507.18071): one clipped ratio per sequence.

The ratio of sequence ``y_i`` is the geometric mean of its token ratios, ``s_i = exp(1/|y_i| sum_t log r_it)``
(equation 7), and the objective is the mean over sequences of ``min(s_i A_i, clip(s_i) A_i)`` (equation 5). The ratio is
much closer to 1 than a token's, hence the narrow clip range, which is that of the paper's section 5.1.

The importance weight proximal/behavior stays one per token, as in decoupled PPO. With an advantage per turn, each token
contributes ``min(s_i A_it, clip(s_i) A_it)`` to the mean of its sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from ._aggregation import Aggregation
from .base import TokenBatch
from .decoupled_ppo import DecoupledPPO

if TYPE_CHECKING:
    from torch import Tensor


class GSPO(DecoupledPPO):
    """Decoupled PPO with one ratio per sequence, and every sequence counting the same."""

    clip_ratio_low: float = Field(3e-4, gt=0)
    """The ratio of a sequence is clipped below 1 minus this value."""
    clip_ratio_high: float = Field(4e-4, gt=0)
    """The ratio of a sequence is clipped above 1 plus this value."""
    aggregation: Aggregation = "sequence_mean"
    """The denominator: ``token_mean``, ``sequence_mean`` (the paper's), or ``constant`` (Dr. GRPO)."""

    def log_ratio(self, batch: TokenBatch) -> Tensor:
        """Return at each token the mean log-ratio of its sequence. Shape (tokens,)."""
        return batch.sequence_mean(super().log_ratio(batch))
