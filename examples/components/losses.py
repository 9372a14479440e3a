"""CISPO (MiniMax-M1, 2025, arXiv:2506.13585): truncate the importance weight, and keep the gradient of every token."""

from pydantic import Field
from turnwise.trainer.algorithms.losses.base import LossOutput, Metric, PolicyLoss, TokenBatch


class CISPO(PolicyLoss):
    """The policy gradient, weighted by the truncated ratio current/behavior."""

    ratio_cap: float = Field(5.0, gt=0)
    """Cap of the ratio current/behavior."""

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the mean over the tokens of the step, and metrics."""
        ratio = (batch.logprobs - batch.behavior).exp().detach()
        values = -ratio.clamp(max=self.ratio_cap) * batch.advantages * batch.logprobs
        loss = (batch.weights * values).sum() / batch.totals.tokens
        return LossOutput(loss, {"capped_fraction": Metric(ratio > self.ratio_cap), "ratio_max": Metric(ratio, "max")})
