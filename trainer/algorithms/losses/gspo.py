"""Group Sequence Policy Optimization (Zheng et al. 2025, arXiv:2507.18071): one clipped ratio per sequence.

The ratio of sequence ``y_i`` is the geometric mean of its token ratios, ``s_i = exp(1/|y_i| sum_t log r_it)``
(equation 7), and the objective is the mean over sequences of ``min(s_i A_i, clip(s_i) A_i)`` (equation 5). The ratio is
much closer to 1 than a token's, hence the narrow clip range, which is that of the paper's section 5.1.

With an advantage per turn, the gradient of ``s_i`` would spread the mean advantage of the sequence over all its tokens.
The ratio of a token is therefore that of GSPO-token (section 4.3), ``s_it = sg(s_i) p_it / sg(p_it)`` with ``p_it`` the
token's probability and ``sg`` without gradient: its value is ``s_i``, and each token is moved by its own advantage.
Where all tokens of a sequence have the same advantage and importance weight, both forms have the same gradient.

The importance weight proximal/behavior stays one per token, as in decoupled PPO.

In the paper, ``y_i`` is the whole response that has the reward. An episode whose context began again has several
sequences here, each with a ratio over its own tokens, as the samples of one step in DART have: the ratio of
the whole episode would need all of them in one micro-batch. Together they weigh as one episode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from .base import Aggregation, TokenBatch
from .decoupled_ppo import DecoupledPPO

if TYPE_CHECKING:
    from torch import Tensor


class GSPO(DecoupledPPO):
    """Decoupled PPO with one ratio per sequence, and every episode counting the same."""

    clip_ratio_low: float = Field(3e-4, gt=0)
    """The ratio of a sequence is clipped below 1 minus this value."""
    clip_ratio_high: float = Field(4e-4, gt=0)
    """The ratio of a sequence is clipped above 1 plus this value."""
    aggregation: Aggregation = "episode_mean"
    """The denominator: ``token_mean``, ``episode_mean`` (the paper's), or ``constant`` (Dr. GRPO)."""

    def log_ratio(self, batch: TokenBatch) -> Tensor:
        """Return at each token the mean log-ratio of its sequence, with the gradient of the token's own. (tokens,)."""
        own = super().log_ratio(batch)
        return batch.sequence_mean(own).detach() + own - own.detach()
