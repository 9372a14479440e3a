"""Models that read images: the features of images take the place of the embeddings of their tokens.

* The image processor and the vision tower are those of the model's folder and class in `transformers`; the engine's are
  the same.
* The places of images come with the tokens, and not from the token ids: a policy may sample the token that stands for a
  part of an image, which then has its embedding as any other.
* The tower computes each image of a micro-batch once, however many sequences show it, and no image sees another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....agents import vision_packages
from ....agents.engine.images import decoded
from ....errors import TurnwiseError
from ....records import SampleImage
from . import PATCHES_KEPT_BYTES


class _Patches(NamedTuple):
    """An image as the vision tower takes it."""

    values: Tensor
    """float32 (patches, values per patch)"""
    grid: Tensor
    """int64 (3,): patches along time, height and width"""


def has_vision(model: Any) -> bool:
    """Return whether a model has a part that reads images."""
    return hasattr(getattr(model, "config", None), "vision_config")


def vision_tower(model: Any) -> torch.nn.Module:
    """Return the part of a model that reads images."""
    tower: torch.nn.Module = model.base_model.visual
    return tower


def language_model(model: Any) -> torch.nn.Module:
    """Return the decoder of a model, without the part that reads images."""
    found: torch.nn.Module = model.base_model.language_model if has_vision(model) else model
    return found


class Vision:
    """Decodes sequences with images by a Qwen3-VL."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kept = OrderedDict[str, _Patches]()
        self._size = 0

    def decode(
        self, token_ids: Tensor, position_ids: Tensor, lengths: Sequence[int], images: Sequence[SampleImage]
    ) -> Any:
        """Return the output of the decoder for packed sequences, inside of ``packed_attention.packed``.

        Args:
            token_ids: int64 (1, tokens).
            position_ids: int64 (1, tokens), counted from 0 in each sequence.
            lengths: tokens per sequence.
            images: in the order of their offsets, which are flat positions.

        Raises:
            TurnwiseError: the image processor makes another number of tokens of an image.
        """
        base = self._model.base_model
        if not images:
            result = base(input_ids=token_ids, position_ids=position_ids, use_cache=False)
            result.last_hidden_state = self._with_tower(result.last_hidden_state)
            return result
        from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModelOutputWithPast

        grids, pooled, deep = self._features({one.blob: one for one in images}, token_ids.device)
        mask = torch.zeros_like(token_ids, dtype=torch.bool)
        for one in images:
            mask[0, one.offset : one.offset + one.length] = True
        embeddings = base.get_input_embeddings()(token_ids)
        shown = torch.cat([pooled[one.blob] for one in images]).to(embeddings.dtype)
        result = base.language_model(
            inputs_embeds=embeddings.masked_scatter(mask[..., None], shown),
            position_ids=self._positions(token_ids, mask, lengths, images, grids),
            visual_pos_masks=mask,
            deepstack_visual_embeds=[torch.cat([layer[one.blob] for one in images]) for layer in deep],
            use_cache=False,
        )
        return Qwen3VLModelOutputWithPast(last_hidden_state=result.last_hidden_state)

    def _features(
        self, images: dict[str, SampleImage], device: torch.device
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], list[dict[str, Tensor]]]:
        """Return by hash the grids of images, their features, and per early layer of the decoder the features that are
        added to its output."""
        patches = {name: self._patches(one) for name, one in images.items()}
        grids = {name: one.grid for name, one in patches.items()}
        values = torch.cat([one.values for one in patches.values()]).to(device)
        places = torch.stack(list(grids.values())).to(device)
        found = self._model.base_model.get_image_features(values, places, return_dict=True)
        pooled, *deep = (
            dict(zip(patches, parts, strict=True)) for parts in (found.pooler_output, *found.deepstack_features)
        )
        return grids, pooled, deep

    def _positions(
        self,
        token_ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        images: Sequence[SampleImage],
        grids: dict[str, Tensor],
    ) -> Tensor:
        """Return the positions in time, height and width, by the model's own rule. int64 (3, 1, tokens)."""
        parts = []
        for start, length in zip(accumulate(lengths, initial=0), lengths, strict=False):
            part = slice(start, start + length)
            shown = [grids[one.blob] for one in images if start <= one.offset < start + length]
            parts.append(
                self._model.base_model.get_rope_index(
                    token_ids[:, part], mask[:, part].int(), image_grid_thw=torch.stack(shown) if shown else None
                )[0]
            )
        return torch.cat(parts, -1)

    def _with_tower(self, hidden: Tensor) -> Tensor:
        """Return hidden states whose gradient reaches the trained weights of the vision tower, as 0: every rank has
        gradients of the same weights, also one without images."""
        trained = [one for one in vision_tower(self._model).parameters() if one.requires_grad]
        if not (trained and torch.is_grad_enabled()):
            return hidden
        return hidden + 0.0 * sum(one.sum() for one in trained)

    @cached_property
    def _processor(self) -> Any:
        vision_packages.enable()
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

        return Qwen2VLImageProcessor.from_pretrained(Path(self._model.name_or_path))

    def _patches(self, image: SampleImage) -> _Patches:
        if image.blob not in self._kept:
            made = self._processor(images=[decoded(image.content)], return_tensors="pt")
            self._kept[image.blob] = _Patches(made["pixel_values"], made["image_grid_thw"][0])
            self._size += self._kept[image.blob].values.nbytes
        self._kept.move_to_end(image.blob)
        while self._size > PATCHES_KEPT_BYTES and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].values.nbytes
        found = self._kept[image.blob]
        tokens = int(found.grid.prod()) // int(self._processor.merge_size) ** 2
        if tokens != image.length:
            raise TurnwiseError(
                f"image {image.blob[:12]} has {image.length} tokens in its sample, and the image processor in "
                f"`{self._model.name_or_path}` makes {tokens}: its files are not those of the policy that played"
            )
        return found
