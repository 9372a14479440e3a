"""The memory of one rank of the learner: what it holds all the time, and the most that an update adds.

Weights, gradients and both moments of AdamW are in float32, the linear layers that an adapter leaves as they are in the
data type of the computation. An update has its peak in one of four moments, of which
the largest counts: at the output head, in the backward pass of the last decoder layer or of the first one, or in the
optimizer step.

The bytes that the backward pass needs of the forward pass are those of a layer with two norms, rotary positions and a
gated feed-forward part, computed as `transformers` does: each operation that keeps a tensor for its gradient counts
once. The tests compare them with the bytes that torch keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ..algorithms.losses.base import Need
from ..learner.model import LOGITS_PER_CHUNK, PATCHES_KEPT_BYTES
from .model_shape import ModelShape
from .observed_images import NO_IMAGES, ObservedImages

if TYPE_CHECKING:
    from ..config.schema import RunConfig  # imports gymnasium, which `make test-gpu` does without

FLOAT32 = 4
BFLOAT16 = 2
MOMENTS = 2
"""Tensors of AdamW's state per parameter."""


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


@dataclass(frozen=True, slots=True)
class Workload:
    """The tokens of one optimizer step."""

    tokens: int
    """Of the largest micro-batch."""
    trained_tokens: int
    """Of them, those whose logits are computed."""
    is_split: bool
    """Whether the step has several micro-batches per rank: the gradient of one exists during the next."""
    image_tokens: int = 0
    """Of ``tokens``, those of images."""
    update_image_tokens: int = 0
    """Tokens of all images of an update, each counted once."""


def largest_workload(config: RunConfig, images: ObservedImages = NO_IMAGES) -> Workload:
    """Return the largest micro-batch that a run of this configuration may have: every episode fills its context.

    A sample has at most ``max_context`` tokens. One longer than ``max_tokens_per_micro_batch`` is alone in a
    micro-batch. An episode with more images than a context holds has one more sample per turn.
    """
    rollout, learner, turns = config.rollout, config.learner, config.horizon.longest().max_turns
    episodes = rollout.groups_per_batch * rollout.group_size
    fit = config.horizon.max_images // images.count if images.count else turns  # observations of a context
    samples = -(-episodes // learner.num_minibatches) * max(1, turns - fit + 1)
    tokens = min(samples * config.max_context, max(learner.max_tokens_per_micro_batch, config.max_context))
    observed = images.count * images.tokens
    return Workload(
        tokens,
        tokens,
        is_split=samples * config.max_context > tokens * learner.num_ranks,
        image_tokens=min(tokens, samples * min(config.max_context, min(fit, turns) * observed)),
        update_image_tokens=episodes * turns * observed,
    )


@dataclass(frozen=True)
class LearnerMemory:
    """Bytes of one rank, without those of the process itself."""

    shape: ModelShape
    config: RunConfig
    work: Workload
    dtype: ComputeDtype = field(init=False)

    def __post_init__(self) -> None:
        learner = self.config.learner
        dtype = ComputeDtype(learner.dtype == "bfloat16", learner.backend == "fsdp")
        object.__setattr__(self, "dtype", dtype)

    @cached_property
    def trained(self) -> int:
        """Parameters that are trained; those of a LoRA adapter as if it had all linear layers."""
        shape, lora = self.shape, self.config.learner.lora
        if lora is None:
            return shape.parameters - (shape.vision.parameters if shape.vision and not self._trains_vision else 0)
        return shape.layers * lora.rank * sum(inputs + outputs for inputs, outputs in shape.linear_layers)

    @property
    def moments(self) -> int:
        """Bytes of AdamW's moments."""
        return MOMENTS * FLOAT32 * self.trained // self.config.learner.num_ranks

    @property
    def _offloads(self) -> bool:
        """Whether the moments are on the GPU in the optimizer step alone; those of the warm-up always are."""
        return self.config.learner.optimizer_offload and self.config.warmup_source is None

    @cached_property
    def parts(self) -> dict[str, int]:
        """Bytes by part, at the moment of the peak."""
        lasting = self._lasting()
        peak = max(self._moments(), key=lambda moment: sum(moment.values()))
        return {name: size for name, size in (lasting | peak).items() if size}

    @property
    def total(self) -> int:
        """Bytes at the peak."""
        return sum(self.parts.values())

    def _lasting(self) -> dict[str, int]:
        """Return what exists from one update to the next."""
        config, ranks = self.config, self.config.learner.num_ranks
        parameters = self.shape.parameters
        weights = FLOAT32 * parameters // ranks
        adapter = 0 if config.learner.lora is None else FLOAT32 * self.trained // ranks
        copies = 0
        if config.needs_reference:
            copies += 1
        if config.proximal.reads_weights:
            copies += 1
        if config.advantage.needs_token_model:
            copies += 2 + MOMENTS
        return {
            "weights": weights - self._saved_by_frozen + adapter,
            "optimizer": 0 if self._offloads else self.moments,
            "other models": copies * weights,
        }

    @property
    def _has_low_frozen(self) -> bool:
        """Whether the linear layers that an adapter leaves as they are have the data type of the computation."""
        return self.config.learner.lora is not None and self.dtype.is_bfloat16 and not self.dtype.is_sharded

    @property
    def _saved_by_frozen(self) -> int:
        if not self._has_low_frozen:
            return 0
        linear = sum(inputs * outputs for inputs, outputs in self.shape.linear_layers)
        return (FLOAT32 - self.dtype.weight_bytes) * self.shape.layers * linear

    def _moments(self) -> list[dict[str, int]]:
        """Return what else exists at each moment of an update that may be its peak."""
        shape, learner, work = self.shape, self.config.learner, self.work
        all_gradients = FLOAT32 * self.trained // learner.num_ranks
        step = {
            "gradients": all_gradients,
            "trust region": all_gradients if learner.max_kl else 0,
        }
        if self._offloads:
            step["optimizer"] = self.moments
        per_layer = layer_bytes(shape, self.dtype) * work.tokens
        kept = shape.layers * per_layer
        if learner.activation_checkpointing:
            kept = shape.layers * layer_input_bytes(shape, self.dtype) * work.tokens
        passing = passing_bytes(shape) * work.tokens
        again = per_layer if learner.activation_checkpointing else 0
        head, layer = self._head_gradient(), FLOAT32 * self.trained // learner.num_ranks // shape.layers
        gathered, reduced = self._gathered()
        low_weights, images = self._converted_weights(), self._images()
        return [
            {
                "images": images,
                "gradients": all_gradients + head if work.is_split else head,
                "activations": kept + low_weights,
                "logits": logits_bytes(shape, work.trained_tokens, self._entropy()),
                "gathered": gathered,
            },
            {
                "images": images,
                "gradients": all_gradients if work.is_split else min(all_gradients, head + layer),
                "activations": kept + again + passing + low_weights,
                "gathered": gathered + reduced,
            },
            {
                "images": images,
                "gradients": all_gradients,
                "activations": per_layer + passing,
                "gathered": gathered + reduced,
            },
            step,
        ]

    @property
    def _trains_vision(self) -> bool:
        return self.config.learner.vision == "trained" and self.config.learner.lora is None

    def _images(self) -> int:
        """Return the bytes of images in a micro-batch."""
        if self.shape.vision is None:
            return 0
        return self.work.image_tokens * self.shape.vision.image_bytes(
            is_trained=self._trains_vision,
            is_bfloat16=self.dtype.is_bfloat16,
            is_checkpointed=self.config.learner.activation_checkpointing,
        )

    @property
    def kept_images(self) -> int:
        """Bytes of the prepared images of an update, on the host."""
        vision = self.shape.vision
        if vision is None:
            return 0
        models = 2 if self.config.needs_reference and self.config.learner.lora is None else 1
        one = FLOAT32 * self.work.update_image_tokens * vision.merged * vision.patch_values
        return models * min(PATCHES_KEPT_BYTES, one)

    def _entropy(self) -> Need | None:
        needs = self.config.loss.needs
        return next((one for one in (Need.ENTROPY_GRADIENT, Need.ENTROPY) if one in needs), None)

    def _head_gradient(self) -> int:
        """Return the bytes of the output head's gradient, and of one more that is added to it, chunk by chunk."""
        if self.config.learner.lora is not None:
            return 0
        chunks = logit_chunks(self.shape, self.work.trained_tokens)
        return FLOAT32 * self.shape.embedding_parameters * (2 if chunks > 1 or self.work.is_split else 1)

    def _converted_weights(self) -> int:
        """Return the bytes of the copies that autocast makes of the weights for their gradient."""
        if not self.dtype.is_bfloat16 or self.dtype.is_sharded:
            return 0
        layers = 1 if self.config.learner.activation_checkpointing else self.shape.layers
        if self._has_low_frozen:
            layers = 0
        linear = sum(inputs * outputs for inputs, outputs in self.shape.linear_layers)
        return self.dtype.weight_bytes * (layers * linear + self.shape.embedding_parameters)

    def _gathered(self) -> tuple[int, int]:
        """Return the bytes of whole weights on a rank of FSDP, and of the whole gradients before their reduction.

        The weights outside of the layers are whole during the pass; of the layers, the present one and the next.
        """
        if not self.dtype.is_sharded:
            return 0, 0
        shape = self.shape
        weights = self.dtype.weight_bytes * (shape.root_parameters + 2 * shape.layer_parameters)
        return weights, FLOAT32 * (shape.root_parameters + 2 * shape.layer_parameters)
