"""The families of models that read images: how each prepares an image, computes its features and counts positions.

To add a family, add a class here, its renderer in ``agents.tokens.renderers`` and the shape of its tower in
``planning.vision_memory``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Patches(NamedTuple):
    """An image as the vision tower takes it."""

    values: Tensor
    """float32; the first axis is that along which the images of a micro-batch are joined."""
    grid: Tensor
    """int64 (3,): patches along time, height and width"""
    length: int
    """Tokens."""


class VisionFamily(ABC):
    """A family; ``base`` is the model of a causal language model's class without the output head."""

    parts: tuple[str, ...]
    """Names of the parts of ``base`` that read images."""

    @abstractmethod
    def image_processor(self) -> Any:
        """Return the class of the image processor, which the engine uses too."""

    @abstractmethod
    def patches(self, made: Mapping[str, Tensor], config: Any) -> Patches:
        """Return one image from the result of the image processor; ``config`` is that of the model."""

    @abstractmethod
    def features(self, base: Any, values: Tensor, grids: Tensor) -> list[Sequence[Tensor]]:
        """Return the features of images, (tokens, hidden) per image: first those that take the place of embeddings,
        then per early layer of the decoder those that are added to its output."""

    def unused(self, base: Any) -> list[torch.nn.Module]:
        """Return what is in ``parts`` and changes no feature; it is not trained."""
        return []

    def positions(self, base: Any, token_ids: Tensor, flat: Tensor, mask: Tensor, grids: Sequence[Tensor]) -> Tensor:
        """Return the positions of one sequence, (1, tokens) or, in time, height and width, (3, 1, tokens).

        Args:
            token_ids: int64 (1, tokens).
            flat: positions counted from 0. int64 (1, tokens).
            mask: the tokens of images. bool (1, tokens).
            grids: of the images, in their order.
        """
        return flat

    def decode(self, base: Any, embeddings: Tensor, positions: Tensor, mask: Tensor, early: Sequence[Tensor]) -> Any:
        """Return the output of ``base`` for embeddings that have the features of images in their places.

        Args:
            early: per early layer, the features of all images. (tokens of images, hidden).
        """
        return base(inputs_embeds=embeddings, position_ids=positions, use_cache=False)


class Qwen25Vl(VisionFamily):
    """Qwen2.5-VL: windows in the tower, positions in time, height and width."""

    parts = ("visual",)

    def image_processor(self) -> Any:
        """Return the class that all Qwen-VL share."""
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

        return Qwen2VLImageProcessor

    def patches(self, made: Mapping[str, Tensor], config: Any) -> Patches:
        """Return patches, of which the tower merges squares into tokens."""
        grid = made["image_grid_thw"][0]
        return Patches(made["pixel_values"], grid, int(grid.prod()) // config.vision_config.spatial_merge_size**2)

    def features(self, base: Any, values: Tensor, grids: Tensor) -> list[Sequence[Tensor]]:
        """Return the features of the merged patches."""
        return [base.get_image_features(values, grids, return_dict=True).pooler_output]

    def positions(self, base: Any, token_ids: Tensor, flat: Tensor, mask: Tensor, grids: Sequence[Tensor]) -> Tensor:
        """Return positions by the model's own rule."""
        shown = torch.stack(list(grids)) if grids else None
        positions: Tensor = base.get_rope_index(token_ids, mask.int(), image_grid_thw=shown)[0]
        return positions


class Qwen3Vl(Qwen25Vl):
    """Qwen3-VL: features of earlier layers of the tower are added in early layers of the decoder."""

    def features(self, base: Any, values: Tensor, grids: Tensor) -> list[Sequence[Tensor]]:
        """Return the features of the merged patches, and those of earlier layers."""
        found = base.get_image_features(values, grids, return_dict=True)
        return [found.pooler_output, *found.deepstack_features]

    def decode(self, base: Any, embeddings: Tensor, positions: Tensor, mask: Tensor, early: Sequence[Tensor]) -> Any:
        """Return the output of the decoder; ``base`` itself takes no features."""
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModelOutputWithPast

        result = base.language_model(
            inputs_embeds=embeddings,
            position_ids=positions,
            visual_pos_masks=mask,
            deepstack_visual_embeds=list(early),
            use_cache=False,
        )
        return Qwen3VLModelOutputWithPast(last_hidden_state=result.last_hidden_state)


class Llava(VisionFamily):
    """LLaVA: a CLIP, whose features a projector maps into the decoder; positions are those of text."""

    parts = ("vision_tower", "multi_modal_projector")

    def image_processor(self) -> Any:
        """Return the class of CLIP."""
        from transformers.models.clip.image_processing_clip import CLIPImageProcessor

        return CLIPImageProcessor

    def patches(self, made: Mapping[str, Tensor], config: Any) -> Patches:
        """Return a square, of which each patch is a token; that of the class is one only if all are selected."""
        values, tower = made["pixel_values"], config.vision_config
        side = tower.image_size // tower.patch_size
        length = side**2 + (config.vision_feature_select_strategy == "full")
        return Patches(values, torch.tensor([1, side, side]), length)

    def features(self, base: Any, values: Tensor, grids: Tensor) -> list[Sequence[Tensor]]:
        """Return the projected features of one layer of the tower."""
        return [base.get_image_features(values, return_dict=True).pooler_output]

    def unused(self, base: Any) -> list[torch.nn.Module]:
        """Return the layers of the tower after the one that is read, and the norm of its result."""
        tower, layer = base.vision_tower, base.config.vision_feature_layer
        read = layer % (len(tower.encoder.layers) + 1)
        return [tower.post_layernorm, *tower.encoder.layers[read:]]


FAMILIES: Mapping[str, VisionFamily] = {"llava": Llava(), "qwen2_5_vl": Qwen25Vl(), "qwen3_vl": Qwen3Vl()}
"""By ``model_type``."""


def family_of(model: Any) -> VisionFamily | None:
    """Return the family of a model; None if the model reads text alone."""
    return FAMILIES.get(getattr(getattr(model, "config", None), "model_type", ""))
