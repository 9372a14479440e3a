"""The vision tower of a model that reads images: its parameters, and the memory of images in the learner."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

FLOAT32 = 4


@dataclass(frozen=True, slots=True)
class VisionShape:
    """The sizes of the parts of a model that read images."""

    parameters: int
    hidden: int
    depth: int
    layer_values: int
    """Values that the gradient of one layer needs per patch."""
    end_values: int
    """Values per patch that the gradient of the other parts needs: the embedding of patches, what merges them."""
    patch_values: int
    """Numbers of one patch: of its pixels, in their channels and frames."""
    merged: int
    """Patches of one token."""
    features: int
    """Values per token that the decoder takes."""
    side: int = 0
    """Pixels of a token along each side; 0 if every image has ``fixed_tokens``."""
    fixed_tokens: int = 0

    @classmethod
    def of(cls, config: Any) -> Self | None:
        """Return the shape in the configuration of a model; None if the model reads text alone."""
        sizes = SIZES.get(config.model_type)
        return None if sizes is None else cls(**sizes(config))

    def image_tokens(self, width: int, height: int) -> int:
        """Return the tokens of an image, at most: an image processor rounds each side, and may shrink it."""
        if not self.side:
            return self.fixed_tokens
        return -(-width // self.side) * -(-height // self.side)

    def image_bytes(self, *, is_trained: bool, is_bfloat16: bool, is_checkpointed: bool) -> int:
        """Return the bytes of images per token of a micro-batch, while its gradient is computed.

        Of each of the ``merged`` patches of a token: the patch itself in float32, ``end_values``, and of the layers:

        * of a trained tower ``layer_values`` each; with activation checkpointing those of one layer, and the input of
          every other in float32;
        * of a frozen tower those of one layer, while it computes.

        Of the token itself its ``features``, in float32.
        """
        size = 2 if is_bfloat16 else FLOAT32
        layer = size * self.layer_values
        if not is_trained:
            layers = layer
        elif is_checkpointed:
            layers = layer + self.depth * FLOAT32 * self.hidden
        else:
            layers = self.depth * layer
        ends = size * self.end_values
        return self.merged * (FLOAT32 * self.patch_values + layers + ends) + FLOAT32 * self.features


def _qwen3_vl(config: Any) -> dict[str, int]:
    """Mergers for the last layer and for each early layer of the decoder that takes features."""
    tower = config.vision_config
    hidden, inner, mergers = tower.hidden_size, tower.intermediate_size, 1 + len(tower.deepstack_visual_indexes)
    layer = 4 * hidden + 4 * (hidden + 1) * hidden + 2 * hidden * inner + hidden + inner
    patch, merged = _patches(tower)
    wide = merged * hidden
    norms = 2 * hidden + 2 * wide * (mergers - 1)
    ends = (patch + 1 + tower.num_position_embeddings) * hidden + mergers * _merger(wide, tower.out_hidden_size) + norms
    return {
        "parameters": ends + tower.depth * layer,
        "hidden": hidden,
        "depth": tower.depth,
        "layer_values": 11 * hidden + 2 * inner,
        "end_values": 3 * hidden * (1 + mergers),
        "patch_values": patch,
        "merged": merged,
        "features": mergers * tower.out_hidden_size,
        "side": tower.patch_size * tower.spatial_merge_size,
    }


def _qwen2_5_vl(config: Any) -> dict[str, int]:
    """Gated layers without a bias in their norms, and one merger."""
    tower = config.vision_config
    hidden, inner = tower.hidden_size, tower.intermediate_size
    layer = 2 * hidden + 4 * (hidden + 1) * hidden + 3 * hidden * inner + 2 * inner + hidden
    patch, merged = _patches(tower)
    ends = (patch + 1) * hidden + _merger(merged * hidden, tower.out_hidden_size)
    return {
        "parameters": ends + tower.depth * layer,
        "hidden": hidden,
        "depth": tower.depth,
        "layer_values": 13 * hidden + 4 * inner,
        "end_values": 7 * hidden,
        "patch_values": patch,
        "merged": merged,
        "features": tower.out_hidden_size,
        "side": tower.patch_size * tower.spatial_merge_size,
    }


def _llava(config: Any) -> dict[str, int]:
    """A CLIP, whose patches are tokens after two linear layers."""
    tower, output = config.vision_config, config.text_config.hidden_size
    hidden, inner, patch = tower.hidden_size, tower.intermediate_size, tower.num_channels * tower.patch_size**2
    layer = 4 * hidden + 4 * (hidden + 1) * hidden + 2 * hidden * inner + hidden + inner
    positions = (tower.image_size // tower.patch_size) ** 2 + 1
    bias = int(config.multimodal_projector_bias)
    projector = (hidden + bias) * output + (output + bias) * output
    return {
        "parameters": (1 + patch + positions + 4) * hidden + tower.num_hidden_layers * layer + projector,
        "hidden": hidden,
        "depth": tower.num_hidden_layers,
        "layer_values": 9 * hidden + 3 * inner,
        "end_values": 2 * hidden + 2 * output,
        "patch_values": patch,
        "merged": 1,
        "features": output,
        "fixed_tokens": positions,
    }


def _patches(tower: Any) -> tuple[int, int]:
    """Return the values of a patch of a Qwen-VL, and the patches of a token."""
    return tower.in_channels * tower.temporal_patch_size * tower.patch_size**2, tower.spatial_merge_size**2


def _merger(wide: int, output: int) -> int:
    """Return the parameters of the two linear layers that merge ``wide`` values."""
    return (wide + 1) * wide + (wide + 1) * output


SIZES: Mapping[str, Callable[[Any], dict[str, int]]] = {
    "llava": _llava,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
}
"""The sizes of each family from the configuration of a model."""
