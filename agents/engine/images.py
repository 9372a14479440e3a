"""The images of prompts, in the process of an engine: their features by vLLM's own processor, kept by hash.

A client sends an image to an engine once, and its features are computed once for all clients. Those that were not used
for longest are dropped beyond ``FEATURES_KEPT_BYTES``. A prompt with an image that is not kept is answered with
``UNSENT``, and the client sends the image again. Nothing depends on the order in which requests arrive: Ray starts a
small call of an actor before an earlier large one.

The renderer decided how many tokens an image has, and where they are; if vLLM's processor computes another number of
features, or the tokens at that place are others, the prompt is refused.
"""

import hashlib
import io
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...base.pictures import has_second_header, is_deep, on_white
from ..tokens.renderer import PNG_SIGNATURE, ImageSpan
from .config import FEATURES_KEPT_BYTES

PIXELS_MAX = 64_000_000
"""Pixels of an image that is decoded, at most."""


class RefusedImage(ValueError):
    """An image of a prompt cannot be used."""


class UnsentImage(ValueError):
    """An image of a prompt is neither sent with it nor kept."""


class _Features(NamedTuple):
    data: Any
    length: int
    """Tokens."""
    size: int
    """Bytes."""


def keep_features() -> None:
    """Let vLLM keep the features of images that its prefix cache covers. Called before the engine is built.

    vLLM 0.32 drops them when a request is admitted. An update in flight then clears the cache, and the request is
    computed again, without the features.
    """
    from vllm.v1.core.sched import output

    sent: Any = output
    sent.strip_covered_mm_data = lambda features, *_, **__: features


class ImageFeatures:
    """Makes the features of images for one engine."""

    def __init__(self, config: Any) -> None:
        """``config`` is the configuration of vLLM; its model reads images."""
        from vllm.multimodal import MULTIMODAL_REGISTRY
        from vllm.tokenizers.registry import cached_tokenizer_from_config

        tokenizer = cached_tokenizer_from_config(config.model_config)
        self._processor: Any = MULTIMODAL_REGISTRY.create_processor(config.model_config, tokenizer=tokenizer)
        self._parser: Any = self._processor.info.get_data_parser()
        text = self._processor.dummy_inputs.get_dummy_text({"image": 1})
        self._prompt: list[int] = tokenizer.encode(text, add_special_tokens=False)
        self._token: int = config.model_config.hf_config.image_token_id
        self._kept = OrderedDict[str, _Features]()

    def of(self, tokens: Sequence[int], spans: Sequence[ImageSpan], contents: Mapping[str, bytes]) -> list[Any]:
        """Return vLLM's ``MultiModalFeatureSpec`` of each image in a prompt.

        Args:
            tokens: the token ids of the prompt.
            contents: images as PNG, by hash.

        Raises:
            RefusedImage: an image cannot be decoded, has another hash or number of tokens than its span, or its span
                has other tokens than those of an image, or those of an image before it.
            UnsentImage: an image is neither in ``contents`` nor kept.
        """
        from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

        found, end = list[Any](), 0
        for span in spans:
            data, length, _ = self._features(span.blob, contents)
            if length != span.length:
                raise RefusedImage(
                    f"image {span.blob[:12]} has {span.length} tokens in the prompt, and the engine's processor makes "
                    f"{length}: the worker and the engine have other files of the image processor"
                )
            if span.offset < end or list(tokens[span.offset : span.offset + length]) != [self._token] * length:
                raise RefusedImage(f"image {span.blob[:12]} has tokens in the prompt that are not those of an image")
            end = span.offset + length
            place = PlaceholderRange(offset=span.offset, length=length)
            found.append(MultiModalFeatureSpec(data, "image", span.blob, place, span.blob))
        return found

    def _features(self, name: str, contents: Mapping[str, bytes]) -> _Features:
        if name not in self._kept:
            if name not in contents:
                raise UnsentImage(name)
            self._kept[name] = self._made(name, contents[name])
        self._kept.move_to_end(name)
        while len(self._kept) > 1 and sum(one.size for one in self._kept.values()) > FEATURES_KEPT_BYTES:
            self._kept.popitem(last=False)
        return self._kept[name]

    def _made(self, name: str, content: bytes) -> _Features:
        from vllm.multimodal.cache.base import MultiModalCache
        from vllm.multimodal.processing.context import TimingContext
        from vllm.multimodal.processing.inputs import ProcessorInputs

        if hashlib.sha256(content).hexdigest() != name:  # vLLM's caches serve it to every client by this name
            raise RefusedImage(f"an image has another content than its hash {name[:12]} names")
        picture = decoded(content)
        try:
            items = self._parser.parse_mm_data({"image": [picture]})
            inputs = ProcessorInputs(prompt=self._prompt, mm_data_items=items)
            made = self._processor.apply(inputs, TimingContext(enabled=False))
        except Exception as error:  # the processor of a model raises errors of many types
            raise RefusedImage(f"an image cannot be processed: {error}") from error
        (data,), (place,) = made["mm_kwargs"]["image"], made["mm_placeholders"]["image"]
        return _Features(data, int(place.length), MultiModalCache.get_item_size(data))


def decoded(content: bytes) -> Any:
    """Return a PNG as an RGB image, on white. Raises ``RefusedImage``: it cannot be decoded, or is too large."""
    from PIL import Image, UnidentifiedImageError

    if content.startswith(PNG_SIGNATURE) and has_second_header(content):
        raise RefusedImage("an image has two headers: encode it again")
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.width * image.height > PIXELS_MAX:
                raise RefusedImage(f"an image of {image.width} x {image.height} pixels is too large")
            if is_deep(content):
                raise RefusedImage("an image has 16 bits per channel, which would be cut: make it one of 8 bits")
            return on_white(image)
    except RefusedImage:
        raise
    except UnidentifiedImageError as error:  # its text names an object in memory
        raise RefusedImage("an image cannot be decoded: it is no PNG, or its first part is damaged") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise RefusedImage(f"an image cannot be decoded: {error}") from error
