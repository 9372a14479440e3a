"""The bytes that the backward pass needs of the forward pass, per token.

The terms are those of a layer with two norms, rotary positions and a gated feed-forward part, computed as
`transformers` does: each operation of the learner's forward pass that keeps a tensor for its gradient counts once. The
tests compare them with the bytes that torch keeps.
"""

from dataclasses import dataclass

from ..algorithms.losses.base import Need
from ..learner.model import LOGITS_PER_CHUNK
from .model_shape import ModelShape

FLOAT32 = 4
BFLOAT16 = 2


@dataclass(frozen=True, slots=True)
class ComputeDtype:
    """The data type of a forward and backward pass, and how the weights get it."""

    is_bfloat16: bool
    is_sharded: bool
    """Whether FSDP gathers the weights in that type. Otherwise autocast converts each operand of each product."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight in a product."""
        return BFLOAT16 if self.is_bfloat16 else FLOAT32


def layer_bytes(shape: ModelShape, dtype: ComputeDtype) -> int:
    """Return the bytes that one decoder layer keeps per token."""
    hidden, queries, keys = shape.hidden, shape.queries, shape.keys
    inner = shape.intermediate or shape.active_experts * shape.expert_intermediate
    norms = shape.normalizes_queries
    if dtype.is_bfloat16:
        kept = (16 if dtype.is_sharded else 26) * hidden + 8 * inner
        kept += (12 if norms else 6) * queries + (10 if norms else 4) * keys
    else:
        kept = 24 * hidden + 16 * inner
        kept += (20 if norms else 12) * queries + (16 if norms else 8) * keys
    return kept + 2 * shape.active_experts * shape.hidden * dtype.weight_bytes


def layer_input_bytes(shape: ModelShape, dtype: ComputeDtype) -> int:
    """Return the bytes of one layer's input per token: all that activation checkpointing keeps."""
    return shape.hidden * (BFLOAT16 if dtype.is_bfloat16 and dtype.is_sharded else FLOAT32)


def passing_bytes(shape: ModelShape) -> int:
    """Return the bytes per token outside of the layers: embeddings, the last norm, and gradients on their way back."""
    inner = shape.intermediate or shape.active_experts * shape.expert_intermediate
    return FLOAT32 * (5 * shape.hidden + inner)


def logits_bytes(shape: ModelShape, trained_tokens: int, entropy: Need | None) -> int:
    """Return the most bytes of logits, and of tensors of their size, that exist at once.

    Without entropies there are three: the logits, their distributions and a gradient. Entropies add one, and their
    gradient another.
    """
    rows = min(trained_tokens, max(1, LOGITS_PER_CHUNK // shape.vocabulary))
    copies = {None: 3, Need.ENTROPY: 4, Need.ENTROPY_GRADIENT: 5}[entropy]
    return copies * rows * shape.vocabulary * FLOAT32


def logit_chunks(shape: ModelShape, trained_tokens: int) -> int:
    """Return in how many chunks the logits of these tokens are computed."""
    return -(-trained_tokens // max(1, LOGITS_PER_CHUNK // shape.vocabulary))
