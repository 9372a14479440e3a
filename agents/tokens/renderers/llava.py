"""Chats with images of LLaVA: every image is cut to one square, so that all have the same number of tokens."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...errors import UnusableChat
from ..encoding import read_json
from ..renderer import Image
from .images import ImageRenderer

MODEL_TYPES = frozenset({"llava"})
SCALED_PIXELS_MAX = 1 << 24
"""Pixels of an image whose shorter side has the length of the square, before it is cut, at most."""


class LlavaRenderer(ImageRenderer):
    """A LLaVA with a CLIP; no token begins or ends an image."""

    placeholder = "<image>"

    def __init__(self, folder: Path) -> None:
        """Raises ``UnusableChat`` as ``ImageRenderer`` does, and if the image processor is that of another tower."""
        super().__init__(folder)
        from transformers import CLIPVisionConfig

        config = read_json(self._folder / "config.json")
        tower: Any = CLIPVisionConfig(**config.get("vision_config", {}))
        processor = read_json(self._folder / "preprocessor_config.json")
        cut = processor.get("crop_size")
        self._side: int = tower.image_size
        if cut not in (self._side, {"height": self._side, "width": self._side}):
            raise UnusableChat(
                f"`{folder}`: `crop_size` in its `preprocessor_config.json` is {cut!r}, and the vision tower in its "
                f"`config.json` reads squares of {self._side} pixels: get the files of one model"
            )
        needed = {"size": {"shortest_edge": self._side}, "do_resize": True, "do_center_crop": True}
        for key, value in needed.items():
            if (found := processor.get(key, value)) != value and (key, found) != ("size", self._side):
                raise UnusableChat(
                    f"`{folder}`: `{key}` in its `preprocessor_config.json` is {found!r}, and its tower needs "
                    f"{value!r}: get the files of one model"
                )
        if not isinstance(layer := config.get("vision_feature_layer", -2), int):
            raise UnusableChat(
                f"`{folder}`: `vision_feature_layer` in its `config.json` is {layer!r}, and vLLM serves one layer only"
            )
        has_class = config.get("vision_feature_select_strategy", "default") == "full"
        self._tokens: int = (self._side // tower.patch_size) ** 2 + has_class

    def image_size(self, image: Image) -> tuple[int, ...]:
        """Return the size of the square and the part in the middle that it shows, as ``renderer.Renderer`` defines."""
        side = min(image.width, image.height)
        part = ((image.width - side) // 2, (image.height - side) // 2, side, side)
        return self._side, self._side, *(part if image.width != image.height else ())

    def _image_text(self, image: Image) -> str:
        return self.placeholder * self._length(image)

    def _runs(self, tokens: Sequence[int]) -> list[tuple[int, int]]:
        """Return the parts of the runs of the control token that are as long as one or more images."""
        runs, start = list[tuple[int, int]](), 0
        for token, run in groupby(tokens):
            length = len(list(run))
            if token == self._placeholder and length % self._tokens == 0:
                runs += [(first, self._tokens) for first in range(start, start + length, self._tokens)]
            start += length
        return runs

    def _length(self, image: Image) -> int:
        short, long = sorted((image.width, image.height))
        if self._side**2 * long > SCALED_PIXELS_MAX * short:
            raise ValueError(
                f"an image of {image.width} x {image.height} pixels is refused: with a shorter side of {self._side} "
                f"pixels it has more than {SCALED_PIXELS_MAX}"
            )
        return self._tokens


RENDERER = LlavaRenderer
