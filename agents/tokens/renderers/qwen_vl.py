"""Chats with images of Qwen2.5-VL and Qwen3-VL: an image is a run of one control token, of a length by its size.

The renderer decides the token ids, and the engine the features of an image. The engine refuses a prompt in which the
two disagree about the length of an image (``engine.images``).
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors import UnusableChat
from ...model_folder import base_model
from ..encoding import read_json
from ..renderer import ChatMessage, Image, ImageSpan
from .text import TextRenderer

MODEL_TYPES = frozenset({"qwen2_5_vl", "qwen3_vl"})
START, PLACEHOLDER, END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"


class QwenVlRenderer(TextRenderer):
    """The tokenizer, the chat template and the image processor of a model folder."""

    reads_images = True

    def __init__(self, folder: Path) -> None:
        """Raises ``UnusableChat`` as ``load_renderer`` does, and if the folder has no image processor."""
        super().__init__(folder)
        self._folder = base_model(folder)
        named = read_json(self._folder / "config.json").get("image_token_id")
        self._placeholder = self.encoder.control_token(PLACEHOLDER)
        if self._placeholder is None or self._placeholder != named:
            raise UnusableChat(
                f"`{folder}`: `image_token_id` in its `config.json` is {named!r}, and `{PLACEHOLDER}` of its tokenizer "
                f"is {self._placeholder!r}: get the files of one model"
            )
        if not (self._folder / "preprocessor_config.json").is_file():
            raise UnusableChat(f"`{folder}` has no image processor (`preprocessor_config.json`): get the file again")

    def image_spans(self, tokens: Sequence[int], images: Sequence[Image]) -> list[ImageSpan]:
        """Return the places of images in a message that shows them, as ``renderer.Renderer`` defines it.

        Every run of the control token between the tokens that begin and end an image is one image, of the length that
        the image processor makes of its size. A turn in a context that began again may have a control token too.
        """
        start, end = (self.encoder.control_token(one) for one in (START, END))
        runs = list[tuple[int, int]]()
        for first in (place + 1 for place, one in enumerate(tokens) if one == start):
            stop = next((i for i in range(first, len(tokens)) if tokens[i] != self._placeholder), first)
            if first < stop and tokens[stop] == end:
                runs.append((first, stop - first))
        found, needed = [length for _, length in runs], [self._length(image) for image in images]
        if found != needed:
            raise ValueError(f"its tokens have images of {found} tokens, and its images have {needed}")
        return [ImageSpan(image.blob, first, length) for image, (first, length) in zip(images, runs, strict=True)]

    def image_size(self, image: Image) -> tuple[int, int]:
        """Return the size that the image processor gives an image, as ``renderer.Renderer`` defines it."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        processor = self._processor
        least, most = processor.size["shortest_edge"], processor.size["longest_edge"]
        side = int(processor.patch_size) * int(processor.merge_size)
        height, width = smart_resize(image.height, image.width, side, min_pixels=least, max_pixels=most)
        return width, height

    def _image_text(self, image: Image) -> str:
        return f"{START}{PLACEHOLDER * self._length(image)}{END}"

    def _image_spans(self, parts: Sequence[list[int]], shown: Sequence[ChatMessage]) -> list[ImageSpan]:
        images = [part for message in shown for part in message.content if isinstance(part, Image)]
        if not images:
            return []
        places = list[int]()
        offset = 0
        for index, part in enumerate(parts):
            if index % 2 == 0:  # a turn may have sampled the control token
                places += [offset + place for place, one in enumerate(part) if one == self._placeholder]
            offset += len(part)
        spans, start = [], 0
        for image in images:
            length = self._length(image)
            run = places[start : start + length]
            if len(run) < length or run[-1] - run[0] != length - 1:
                raise ValueError(f"the chat template changed the {length} tokens of an image")
            spans.append(ImageSpan(image.blob, run[0], length))
            start += length
        if start != len(places):
            raise ValueError(f"the context has {len(places)} tokens of images, and its images have {start}")
        return spans

    def _length(self, image: Image) -> int:
        """Return the number of tokens of an image.

        Raises:
            ValueError: the image processor refuses its size.
        """
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
