"""The images of prompts, in the process of an engine: their features by vLLM's own processor, kept by hash.

An image travels to an engine once per client, and its features are computed once. The renderer decided how many tokens
an image has; if vLLM's processor computes another number of features, the prompt is refused.
"""

import io
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ..tokens.renderer import ImageSpan

IMAGES_KEPT = 512
"""Images that an engine keeps for a client, the last used ones. The client counts them in the same order."""
PIXELS_MAX = 64_000_000
"""Pixels of an image that is decoded, at most."""
Kept = OrderedDict[str, Any]
"""What an engine keeps for a client, or what a client knows to be kept, by the hash of the image."""


class RefusedImage(ValueError):
    """An image of a prompt cannot be used."""


def used(kept: Kept, name: str) -> bool:
    """Return whether an image is kept; if it is, it is now the last used one."""
    if name in kept:
        kept.move_to_end(name)
        return True
    return False


def forget(kept: Kept) -> None:
    """Drop the images beyond ``IMAGES_KEPT``; called after each request."""
    while len(kept) > IMAGES_KEPT:
        kept.popitem(last=False)


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

    def of(self, spans: Sequence[ImageSpan], contents: Mapping[str, bytes], kept: Kept) -> list[Any]:
        """Return vLLM's ``MultiModalFeatureSpec`` of each image in a prompt.

        Args:
            contents: the images that are not in ``kept``, as PNG, by hash.
            kept: features and their number by the hash of the image; new ones are added.

        Raises:
            RefusedImage: an image is missing, cannot be decoded, or has another number of tokens than its span.
        """
        from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

        found = []
        for span in spans:
            if not used(kept, span.blob):
                kept[span.blob] = self._made(contents.get(span.blob))
            if isinstance(kept[span.blob], RefusedImage):
                raise kept[span.blob]
            data, length = kept[span.blob]
            if length != span.length:
                raise RefusedImage(
                    f"image {span.blob[:12]} has {span.length} tokens in the prompt, and the engine's processor makes "
                    f"{length}: the worker and the engine have other files of the image processor"
                )
            place = PlaceholderRange(offset=span.offset, length=length)
            found.append(MultiModalFeatureSpec(data, "image", span.blob, place, span.blob))
        forget(kept)
        return found

    def _made(self, content: bytes | None) -> tuple[Any, int] | RefusedImage:
        """Return the features of an image and their number, or why there are none."""
        from vllm.multimodal.processing.context import TimingContext
        from vllm.multimodal.processing.inputs import ProcessorInputs

        if content is None:
            return RefusedImage("an image of the prompt was not sent to this engine")
        try:
            items = self._parser.parse_mm_data({"image": [decoded(content)]})
            inputs = ProcessorInputs(prompt=self._prompt, mm_data_items=items)
            made = self._processor.apply(inputs, TimingContext(enabled=False))
        except (ValueError, RuntimeError) as error:
            return RefusedImage(f"an image cannot be processed: {error}")
        (data,), (place,) = made["mm_kwargs"]["image"], made["mm_placeholders"]["image"]
        return data, int(place.length)


def decoded(content: bytes) -> Any:
    """Return a PNG as an RGB image. Raises ``RefusedImage``: it cannot be decoded, or is too large."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            if image.width * image.height > PIXELS_MAX:
                raise RefusedImage(f"an image of {image.width} x {image.height} pixels is too large")
            return image.convert("RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise RefusedImage(f"an image cannot be decoded: {error}") from error
