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


class LlavaRenderer(ImageRenderer):
    """A LLaVA with a CLIP; no token begins or ends an image."""

    placeholder = "<image>"

    def __init__(self, folder: Path) -> None:
        """Raises ``UnusableChat`` as ``ImageRenderer`` does, and if the image processor is that of another tower."""
        super().__init__(folder)
        from transformers import CLIPVisionConfig

        config = read_json(self._folder / "config.json")
        tower: Any = CLIPVisionConfig(**config.get("vision_config", {}))
        cut = read_json(self._folder / "preprocessor_config.json").get("crop_size")
        self._side: int = tower.image_size
        if cut not in (self._side, {"height": self._side, "width": self._side}):
            raise UnusableChat(
                f"`{folder}`: `crop_size` in its `preprocessor_config.json` is {cut!r}, and the vision tower in its "
                f"`config.json` reads squares of {self._side} pixels: get the files of one model"
            )
        if not isinstance(layer := config.get("vision_feature_layer", -2), int):
            raise UnusableChat(
                f"`{folder}`: `vision_feature_layer` in its `config.json` is {layer!r}, and vLLM serves one layer only"
            )
        has_class = config.get("vision_feature_select_strategy", "default") == "full"
        self._tokens: int = (self._side // tower.patch_size) ** 2 + has_class

    def image_size(self, image: Image) -> tuple[int, int]:
        """Return the size of the square, as ``renderer.Renderer`` defines it."""
        return self._side, self._side

    def _image_text(self, image: Image) -> str:
        return self.placeholder * self._tokens

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
        return self._tokens


RENDERER = LlavaRenderer
