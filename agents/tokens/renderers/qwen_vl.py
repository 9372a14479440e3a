"""Chats with images of Qwen2.5-VL and Qwen3-VL: control tokens begin and end an image, whose length is by its size."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..renderer import Image
from .images import ImageRenderer

MODEL_TYPES = frozenset({"qwen2_5_vl", "qwen3_vl"})
START, END = "<|vision_start|>", "<|vision_end|>"


class QwenVlRenderer(ImageRenderer):
    """A Qwen-VL; its image processor keeps the shape of an image."""

    placeholder = "<|image_pad|>"

    def image_size(self, image: Image) -> tuple[int, ...]:
        """Return the size that the image processor gives an image, as ``renderer.Renderer`` defines it."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        processor = self._processor
        least, most = processor.size["shortest_edge"], processor.size["longest_edge"]
        side = int(processor.patch_size) * int(processor.merge_size)
        height, width = smart_resize(image.height, image.width, side, min_pixels=least, max_pixels=most)
        return width, height

    def _image_text(self, image: Image) -> str:
        return f"{START}{self.placeholder * self._length(image)}{END}"

    def _runs(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Return the runs of the control token between the tokens that begin and end an image."""
        start, end = (self.encoder.control_token(one) for one in (START, END))
        runs = list[tuple[int, int]]()
        for first in (place + 1 for place, one in enumerate(tokens) if one == start):
            stop = next((i for i in range(first, len(tokens)) if tokens[i] != self._placeholder), first)
            if first < stop and tokens[stop] == end:
                runs.append((first, stop - first))
        return runs

    def _length(self, image: Image) -> int:
        processor = self._processor
        try:
            patches: int = processor.get_number_of_image_patches(image.height, image.width)
        except ValueError as error:
            raise ValueError(f"an image of {image.width} x {image.height} pixels is refused: {error}") from error
        return patches // int(processor.merge_size) ** 2

    @cached_property
    def _processor(self) -> Any:
        from transformers import Qwen2VLImageProcessorPil

        return Qwen2VLImageProcessorPil.from_pretrained(self._folder)


RENDERER = QwenVlRenderer
