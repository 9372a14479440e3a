"""The vision tower of a model that reads images: its parameters, and the memory of images in the learner.

The sizes of images are not known when a run is planned, so every token of a micro-batch counts as one of an image.
"""

from dataclasses import dataclass
from typing import Any, Self

FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class VisionShape:
    """The sizes of a Qwen3-VL's vision tower."""

    hidden: int
    depth: int
    intermediate: int
    patch_values: int
    """Numbers of one patch: of its pixels, in their channels and frames."""
    positions: int
    merged: int
    """Patches of one token."""
    output: int
    """Hidden size of the decoder."""
    deep: int
    """Early layers of the decoder to which features are added."""

    @classmethod
    def of(cls, config: Any) -> Self:
        """Return the shape in the ``vision_config`` of a configuration."""
        return cls(
            hidden=config.hidden_size,
            depth=config.depth,
            intermediate=config.intermediate_size,
            patch_values=config.in_channels * config.temporal_patch_size * config.patch_size**2,
            positions=config.num_position_embeddings,
            merged=config.spatial_merge_size**2,
            output=config.out_hidden_size,
            deep=len(config.deepstack_visual_indexes),
        )

    @property
    def parameters(self) -> int:
        """Parameters of the tower."""
        hidden, inner, wide = self.hidden, self.intermediate, self.merged * self.hidden
        layer = 4 * hidden + 4 * (hidden + 1) * hidden + 2 * hidden * inner + hidden + inner
        merger = (wide + 1) * wide + (wide + 1) * self.output
        norms = 2 * hidden + 2 * wide * self.deep
        return (
            (self.patch_values + 1) * hidden
            + self.positions * hidden
            + self.depth * layer
            + (1 + self.deep) * merger
            + norms
        )

    def image_bytes(self, *, is_trained: bool, is_bfloat16: bool, is_checkpointed: bool) -> int:
        """Return the bytes of images per token of a micro-batch, while its gradient is computed.

        Of each of the ``merged`` patches of a token, with ``b`` = 4 bytes per value, or 2 in bfloat16:

        * the patch itself: 4 bytes per value;
        * per layer of a trained tower, what its gradient needs: ``11 hidden b + 2 intermediate b``. With activation
          checkpointing that of one layer, and the input of every other. A frozen tower keeps that of one layer, while
          it computes;
        * what the mergers and the embedding of patches keep: ``3 hidden b`` for each, one of them per deep feature.

        Of the token itself: its feature, and one per deep feature, in the hidden size of the decoder.
        """
        size = 2 if is_bfloat16 else FLOAT32
        layer = size * (11 * self.hidden + 2 * self.intermediate)
        if not is_trained:
            layers = layer
        elif is_checkpointed:
            layers = layer + self.depth * FLOAT32 * self.hidden
        else:
            layers = self.depth * layer
        ends = 3 * size * self.hidden * (2 + self.deep)
        return self.merged * (FLOAT32 * self.patch_values + layers + ends) + FLOAT32 * (1 + self.deep) * self.output
