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
from typing import Any

import torch
from torch import Tensor

from ....agents.engine.images import decoded
from ....errors import TurnwiseError
from ....records import SampleImage
from . import PATCHES_KEPT_BYTES
from .vision_families import Patches, VisionFamily, family_of


def vision_tower(model: Any) -> torch.nn.ModuleList:
    """Return the parts of a model that read images; none of a model that reads text alone."""
    family = family_of(model)
    return torch.nn.ModuleList(getattr(model.base_model, name) for name in (family.parts if family else ()))


def freeze_vision(model: Any, *, whole: bool) -> None:
    """Train none of the parts of a model that read images; unless ``whole``, only those that change no feature."""
    if whole:
        vision_tower(model).requires_grad_(False)
    elif family := family_of(model):
        torch.nn.ModuleList(family.unused(model.base_model)).requires_grad_(False)


def language_model(model: Any) -> torch.nn.Module:
    """Return the decoder of a model, without the parts that read images."""
    found: torch.nn.Module = model.base_model.language_model if family_of(model) else model
    return found


class Vision:
    """Decodes sequences with images."""

    def __init__(self, model: Any, family: VisionFamily) -> None:
        self._model = model
        self._family = family
        self._kept = OrderedDict[str, Patches]()
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
        patches = {name: self._patches(one) for name, one in {one.blob: one for one in images}.items()}
        mask = torch.zeros_like(token_ids, dtype=torch.bool)
        for one in images:
            mask[0, one.offset : one.offset + one.length] = True
        embeddings = base.get_input_embeddings()(token_ids)
        shown, *early = (
            torch.cat([layer[one.blob] for one in images]) for layer in self._features(patches, token_ids.device)
        )
        return self._family.decode(
            base,
            embeddings.masked_scatter(mask[..., None], shown.to(embeddings.dtype)),
            self._positions(token_ids, position_ids, mask, lengths, images, patches),
            mask,
            early,
        )

    def forget(self) -> None:
        """Drop the prepared images: those of another update are others."""
        self._kept.clear()
        self._size = 0

    def _features(self, patches: dict[str, Patches], device: torch.device) -> list[dict[str, Tensor]]:
        """Return the features of images by hash, as ``VisionFamily.features`` lists them."""
        values = torch.cat([one.values for one in patches.values()]).to(device)
        grids = torch.stack([one.grid for one in patches.values()]).to(device)
        layers = self._family.features(self._model.base_model, values, grids)
        return [dict(zip(patches, layer, strict=True)) for layer in layers]

    def _positions(
        self,
        token_ids: Tensor,
        position_ids: Tensor,
        mask: Tensor,
        lengths: Sequence[int],
        images: Sequence[SampleImage],
        patches: dict[str, Patches],
    ) -> Tensor:
        """Return the positions of packed sequences, as ``VisionFamily.positions`` counts them in each."""
        parts = []
        for start, length in zip(accumulate(lengths, initial=0), lengths, strict=False):
            place = slice(start, start + length)
            grids = [patches[one.blob].grid for one in images if start <= one.offset < start + length]
            one = token_ids[:, place], position_ids[:, place], mask[:, place]
            parts.append(self._family.positions(self._model.base_model, *one, grids))
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
        return self._family.image_processor().from_pretrained(Path(self._model.name_or_path))

    def _patches(self, image: SampleImage) -> Patches:
        if image.blob not in self._kept:
            made = self._processor(images=[decoded(image.content)], return_tensors="pt")
            self._kept[image.blob] = self._family.patches(made, self._model.config)
            self._size += self._kept[image.blob].values.nbytes
        self._kept.move_to_end(image.blob)
        while self._size > PATCHES_KEPT_BYTES and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].values.nbytes
        found = self._kept[image.blob]
        if found.length != image.length:
            raise TurnwiseError(
                f"image {image.blob[:12]} has {image.length} tokens in its sample, and the image processor in "
                f"`{self._model.name_or_path}` makes {found.length}: its files are not those of the policy that played"
            )
        return found
