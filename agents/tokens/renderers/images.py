"""Chats with images: an image is a run of one control token, of a length that the image processor decides.

The renderer decides the token ids, and the engine the features of an image. The engine refuses a prompt in which the
two disagree about the length of an image (``engine.images``).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ....records import Role
from ...errors import UnusableChat
from ...model_folder import base_model
from ..encoding import read_json
from ..renderer import ChatMessage, Image, ImageSpan
from .text import TextRenderer

MODEL_TYPES = frozenset[str]()
KEYS = ("image_token_id", "image_token_index")
"""Keys of ``config.json`` that name the control token; a family has one of them."""


class ImageRenderer(TextRenderer, ABC):
    """The tokenizer, the chat template and the image processor of a model folder; the base of families."""

    reads_images = True
    placeholder: str
    """The control token that stands for a part of an image."""

    def __init__(self, folder: Path) -> None:
        """Raises ``UnusableChat`` as ``load_renderer`` does, and if the folder has no image processor."""
        super().__init__(folder)
        self._folder = base_model(folder)
        config = read_json(self._folder / "config.json")
        key = next((one for one in KEYS if one in config), KEYS[0])
        self._placeholder = self.encoder.control_token(self.placeholder)
        if self._placeholder is None or self._placeholder != config.get(key):
            raise UnusableChat(
                f"`{folder}`: `{key}` in its `config.json` is {config.get(key)!r}, and `{self.placeholder}` of its "
                f"tokenizer is {self._placeholder!r}: get the files of one model"
            )
        if not (self._folder / "preprocessor_config.json").is_file():
            raise UnusableChat(f"`{folder}` has no image processor (`preprocessor_config.json`): get the file again")

    def image_spans(self, tokens: Sequence[int], images: Sequence[Image]) -> list[ImageSpan]:
        """Return the places of images in a message that shows them, as ``renderer.Renderer`` defines it."""
        runs = self._runs(tokens)
        found, needed = [length for _, length in runs], [self._length(image) for image in images]
        if found != needed:
            raise ValueError(f"its tokens have images of {found} tokens, and its images have {needed}")
        return [ImageSpan(image.blob, first, length) for image, (first, length) in zip(images, runs, strict=True)]

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

    def _text(self, message: ChatMessage, marker: str, escaped: dict[str, str]) -> str:
        """Return the text of a message; instructions that spell the control token get no image."""
        text = super()._text(message, marker, escaped)
        if message.role is Role.SYSTEM and self.placeholder in text:
            escaped[key := f"{marker}image\ue001"] = self.placeholder
            text = text.replace(self.placeholder, key)
        return text

    def _kept(self, turn: ChatMessage) -> list[int]:
        """Return the ids of an earlier turn without the control token, which would stand for an image there."""
        return [one for one in turn.tokens if one != self._placeholder]

    @abstractmethod
    def _runs(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Return the index of the first token of each image in a message, and the number of its tokens."""

    @abstractmethod
    def _length(self, image: Image) -> int:
        """Return the number of tokens of an image.

        Raises:
            ValueError: the image processor refuses its size.
        """
