"""Renderers: messages to token ids and the places of images, and sampled token ids to content and tool calls.

Families of chat templates differ only here; ``renderers`` has one file for each.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from ...base.pictures import has_second_header
from ...records import Role
from .encoding import Encoder

PNG_SIGNATURE, PNG_HEADER_BYTES = b"\x89PNG\r\n\x1a\n", 24


@dataclass(frozen=True, slots=True)
class Image:
    """An image in a message."""

    blob: str
    """The hash of its content."""
    width: int
    """Pixels."""
    height: int

    @classmethod
    def of(cls, png: bytes) -> Self:
        """Return the image in a PNG file.

        Raises:
            ValueError: it is another file.
        """
        if not png.startswith(PNG_SIGNATURE) or len(png) < PNG_HEADER_BYTES:
            raise ValueError("an image is no PNG, which is what policies read")
        if has_second_header(png):
            raise ValueError("an image has two headers: encode it again")
        width, height = struct.unpack_from(">II", png, 16)
        return cls(hashlib.sha256(png).hexdigest(), width, height)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the policy sampled it."""

    name: str
    arguments: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Role
    content: Sequence[str | Image] = ()
    """Texts and images, in their order; empty for a turn, whose content is in its token ids."""
    calls: Sequence[ToolCall] = ()
    tokens: Sequence[int] = ()
    """The token ids of a turn, as the engine sampled them; a turn from elsewhere was encoded once."""


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """The tokens of an image in a context: the engine puts the features of the image in their place."""

    blob: str
    """The hash of its content."""
    offset: int
    """Index of the first of them."""
    length: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """The context of the policy's next turn."""

    tokens: list[int]
    """The token ids after those of the last turn; if ``is_root``, those of the whole context."""
    is_root: bool = False
    """Whether the context begins again: without a previous rendering, or because the template changed earlier text."""
    images: Sequence[ImageSpan] = ()
    """The images in ``tokens``, in their order; offsets count from the first of ``tokens``."""
    state: Any = None
    """The renderer's own, for the next call; it can be pickled."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of a turn."""

    text: str
    calls: Sequence[ToolCall] = ()


class Renderer(Protocol):
    """The chat template of one model folder; has no state of a conversation."""

    encoder: Encoder
    reads_images: bool
    """Whether messages may have images."""
    stop_tokens: list[int]
    """Token ids that end a turn; the first one closes it in the template."""

    def render(self, messages: Sequence[ChatMessage], previous: Rendered | None) -> Rendered:
        """Return the context of the policy's next turn. The token ids of turns are kept wherever the template keeps
        their text.

        Args:
            messages: the conversation, from its system message if it has one.
            previous: the last rendering of this conversation, since which turns and further messages were added, or
                turns were replaced; None if there is none, or if messages were dropped since.

        Raises:
            ValueError: the template cannot hold such messages.
        """

    def image_spans(self, tokens: Sequence[int], images: Sequence[Image]) -> list[ImageSpan]:
        """Return the places of images in a message of the policy's context that shows them, in their order.

        Args:
            tokens: the token ids of the message.

        Raises:
            ValueError: the tokens are not those of these images.
        """

    def image_size(self, image: Image) -> tuple[int, ...]:
        """Return the width and the height in pixels that the image processor gives an image before the model reads it.

        If it cuts a part out of the image, its left, top, width and height in pixels of the image follow.

        Raises:
            ValueError: the image processor refuses its size.
        """

    def encode_completion(self, text: str, *, escapes: bool = False) -> list[int]:
        """Return the token ids of a turn that the policy did not sample, closed by the end-of-turn token.

        Args:
            escapes: whether the text of a control token stays text.
        """

    def parse(self, tokens: Sequence[int]) -> Parsed:
        """Return the content of a sampled turn, without control tokens and the stop token that ends it."""
