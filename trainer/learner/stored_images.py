"""The images of stored messages: read by hash, decoded once as a check, and placed in the tokens of their message.

The store holds which images a message shows, and their order. Their places follow from the tokens, of which the policy
sampled none: the renderer compares every run of image tokens with the size of its image.
"""

from collections import OrderedDict
from functools import cached_property
from pathlib import Path

from ...agents.engine.images import RefusedImage, decoded
from ...agents.tokens.renderer import Image, Renderer
from ...agents.tokens.renderers import load_renderer
from ...records import Message, SampleImage
from ...store.database import Database
from ...store.errors import BlobCorrupt, BlobMissing
from .batch import UnreadableImage

KEPT_BYTES = 64 << 20
"""Bytes of images that are kept, those of the last used ones."""


class StoredImages:
    """Places the images of one store's messages, for the model of one run."""

    def __init__(self, database: Database, tokenizer: Path) -> None:
        """``tokenizer`` is the folder of the model's tokenizer and image processor, read at the first image."""
        self._database = database
        self._tokenizer = tokenizer
        self._kept = OrderedDict[str, bytes]()
        self._size = 0

    def __call__(self, message: Message) -> list[SampleImage]:
        """Return the images of a message; their offsets count from its first token.

        Raises:
            UnreadableImage: an image is not in the store, is altered, cannot be decoded, or has another number of
                tokens than the message; or the policy sampled a token of the message.
        """
        if not message.images:
            return []
        if any(message.mask):
            raise UnreadableImage(f"message {message.index} shows images, and the policy sampled tokens of it")
        contents = [self._content(name) for name in message.images]
        try:
            spans = self._renderer.image_spans(
                [int(one) for one in message.tokens], [Image.of(one) for one in contents]
            )
        except ValueError as error:
            raise UnreadableImage(
                f"message {message.index}: {error}: the image processor in `{self._tokenizer}` is not that of the "
                "policy that played, or the stored message was altered"
            ) from error
        return [
            SampleImage(span.blob, span.offset, span.length, content)
            for span, content in zip(spans, contents, strict=True)
        ]

    @cached_property
    def _renderer(self) -> Renderer:
        return load_renderer(self._tokenizer)

    def _content(self, name: str) -> bytes:
        if name not in self._kept:
            try:
                with self._database.read() as conn:
                    content = self._database.blobs.get(conn, name)
                decoded(content)
            except (BlobMissing, BlobCorrupt, RefusedImage) as error:
                raise UnreadableImage(f"image {name[:12]}: {error}") from error
            self._kept[name] = content
            self._size += len(content)
        self._kept.move_to_end(name)
        while self._size > KEPT_BYTES and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1])
        return self._kept[name]
