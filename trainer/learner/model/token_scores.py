"""Compute log-probabilities and entropies of packed tokens from final hidden states, in chunks of tokens.

* The decoder runs once over all tokens. The output head runs over chunks of trained tokens, so that logits exist for
  one chunk at a time, in the forward and in the backward pass. The backward pass computes each chunk again.
* The head is the model's own: its matrix, scale and soft cap are those of its class in `transformers`.
* The values of a token do not depend on the chunk that it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from ....errors import TurnwiseError
from ....records import SampleImage
from ...algorithms.losses.base import Need
from ...algorithms.proximal.base import Weights
from ..packing import MicroBatch
from . import LOGITS_PER_CHUNK
from . import packed_attention as attention
from .vision import Vision
from .vision_families import family_of


class TokenScores(NamedTuple):
    """Scores of ``m`` trained tokens, in float32 or the wider dtype of the logits."""

    logprobs: Tensor
    """Log-probabilities of the tokens, in nats. (m,)"""
    entropies: Tensor | None
    """Entropies of the distributions that the tokens are from, in nats. (m,); None if not asked for"""


class TokenScorer(nn.Module):
    """Scores tokens with a Hugging Face causal language model."""

    def __init__(self, model: Any, temperature: float, dtype: torch.dtype = torch.float32) -> None:
        """Score with ``model``, in float32.

        Args:
            temperature: divides the logits.
            dtype: of the products of matrices; the weights and their gradients keep theirs.
        """
        super().__init__()
        self.model = model
        self.temperature = temperature
        self.dtype = dtype
        family = family_of(model)
        self._vision = Vision(model, family) if family else None

    def forget_images(self) -> None:
        """Drop the prepared images that passes over the same samples share."""
        if self._vision is not None:
            self._vision.forget()

    def forward(self, micro_batch: MicroBatch, entropy: Need | None = None) -> TokenScores:
        """Return the scores of the trained tokens.

        Args:
            entropy: ``Need.ENTROPY`` or ``Need.ENTROPY_GRADIENT``; None computes no entropies.
        """
        inputs = micro_batch.token_ids, micro_batch.position_ids, micro_batch.lengths, micro_batch.images
        decoded = self._decode(*inputs)
        hidden = decoded.last_hidden_state[:, micro_batch.logit_positions]
        rows = max(1, LOGITS_PER_CHUNK // self.model.config.get_text_config().vocab_size)
        targets = micro_batch.targets
        if len(targets) <= rows:
            return self._score(decoded, hidden, targets, entropy)
        parts = []
        for one, wanted in zip(torch.split(hidden, rows, 1), torch.split(targets, rows), strict=True):
            arguments = decoded, one, wanted, entropy
            parts.append(
                checkpoint(self._score, *arguments, use_reentrant=False, preserve_rng_state=False)
                if torch.is_grad_enabled()
                else self._score(*arguments)
            )
        entropies = [part.entropies for part in parts if part.entropies is not None]
        return TokenScores(torch.cat([part.logprobs for part in parts]), torch.cat(entropies) if entropies else None)

    def logits(
        self, token_ids: Tensor, position_ids: Tensor, lengths: Sequence[int], images: Sequence[SampleImage] = ()
    ) -> Tensor:
        """Return the logits of every token, in float32. (tokens, vocabulary).

        Args:
            token_ids, position_ids: int64 (tokens,), of sequences of these lengths.
            images: in the order of their offsets, which are flat positions.
        """
        decoded = self._decode(token_ids[None], position_ids[None], lengths, images)
        with self._autocast():
            return _logits(self.model, decoded, decoded.last_hidden_state).float()

    def _decode(
        self, token_ids: Tensor, position_ids: Tensor, lengths: Sequence[int], images: Sequence[SampleImage]
    ) -> Any:
        """Return the output of the decoder for packed sequences of these lengths, (1, tokens)."""
        with attention.packed(lengths), self._autocast():
            if self._vision is not None:
                return self._vision.decode(token_ids, position_ids, lengths, images)
            if images:
                raise TurnwiseError(f"`{self.model.name_or_path}` reads text alone, and a sample has images")
            return self.model.base_model(input_ids=token_ids, position_ids=position_ids, use_cache=False)

    def _autocast(self) -> torch.autocast:
        enabled = self.dtype != torch.float32
        return torch.autocast(self.model.device.type, self.dtype if enabled else torch.bfloat16, enabled)

    def _score(self, decoded: Any, hidden: Tensor, targets: Tensor, entropy: Need | None) -> TokenScores:
        """Return the scores of the tokens ``targets``, int64 (rows,), from hidden states (1, rows, size)."""
        with self._autocast():
            logits = _logits(self.model, decoded, hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.temperature
        distributions = logits.log_softmax(-1)
        logprobs = distributions.gather(-1, targets[:, None]).sum(-1)  # not a view: FSDP hooks the outputs
        if entropy is None:
            return TokenScores(logprobs, None)
        if entropy is Need.ENTROPY:
            distributions = distributions.detach()
        return TokenScores(logprobs, -(distributions.exp() * distributions).sum(-1))


def score_with(scorer: TokenScorer, micro_batch: MicroBatch, weights: Weights | None = None) -> Tensor:
    """Return the log-probabilities of the trained tokens, in nats, without gradient. Shape (m,).

    Args:
        weights: parameters by name to use instead of the model's.
    """
    with torch.no_grad():
        if weights is None:
            scores: TokenScores = scorer(micro_batch)
        else:
            named = {f"model.{name}": value for name, value in weights.items()}
            scores = functional_call(scorer, named, (micro_batch,))
        return scores.logprobs


class _DecodedModel:
    """Stands in for a causal language model whose decoder has run; every other attribute is the model's.

    The ``forward`` of a class in `transformers` calls its decoder, then its output head with the scale and the soft cap
    of the class. Here the decoder returns hidden states that were computed before.
    """

    def __init__(self, model: Any, decoded: Any, hidden: Tensor) -> None:
        self._model = model
        outputs = copy(decoded)
        outputs.last_hidden_state = hidden
        setattr(self, model.base_model_prefix, lambda *_, **__: outputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _logits(model: Any, decoded: Any, hidden: Tensor) -> Tensor:
    """Return the logits of hidden states (1, rows, size), as the model's class computes them. (rows, vocabulary)."""
    logits: Tensor = type(model).forward(_DecodedModel(model, decoded, hidden), use_cache=False).logits
    return logits[0]
