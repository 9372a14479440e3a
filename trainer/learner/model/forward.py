"""Load a Hugging Face causal language model, and compute the log-probabilities of packed tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from ...algorithms.proximal.base import Weights
from ..packing import MicroBatch
from . import packed_attention as attention

logging.disable_progress_bar()


def load_model(folder: str | Path, device: str) -> Any:
    """Return the model of a Hugging Face folder in float32, for packed sequences, in evaluation mode."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention.NAME, local_files_only=True
    )
    return model.to(device).eval()


def log_distributions(
    model: Any, micro_batch: MicroBatch, temperature: float, weights: Weights | None = None
) -> Tensor:
    """Return the log-probability of every token of the vocabulary at each trained token, in nats.

    Args:
        temperature: divides the logits.
        weights: parameters by name to use instead of the model's.

    Returns:
        Shape (m, vocabulary), in float32 or the wider dtype of the logits.
    """
    inputs = {
        "input_ids": micro_batch.token_ids,
        "position_ids": micro_batch.position_ids,
        "use_cache": False,
        "logits_to_keep": micro_batch.logit_positions,
    }
    with attention.packed(micro_batch.lengths):
        result = model(**inputs) if weights is None else functional_call(model, dict(weights), (), inputs)
    logits: Tensor = result.logits[0] / temperature
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def target_logprobs(distributions: Tensor, targets: Tensor) -> Tensor:
    """Return the log-probabilities of the targets, int64 (m,), in log-distributions (m, vocabulary). Shape (m,)."""
    return distributions.gather(-1, targets[:, None])[:, 0]


def entropies(distributions: Tensor) -> Tensor:
    """Return the entropies of log-distributions (m, vocabulary), in nats. Shape (m,)."""
    return -(distributions.exp() * distributions).sum(-1)
