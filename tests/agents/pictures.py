"""Pictures for policies that read images, and their features by `transformers`."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def png(width: int, height: int, seed: int = 0) -> bytes:
    """Return a picture of noise."""
    noise = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "PNG")
    return buffer.getvalue()


def features(folder: Path, contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Return the features of each picture, in a process that has not imported `transformers` yet."""
    from turnwise.agents import vision_packages

    vision_packages.enable()
    from transformers import Qwen2VLImageProcessor

    processor = Qwen2VLImageProcessor.from_pretrained(folder)
    assert processor.backend == "torchvision"
    opened = {name: Image.open(io.BytesIO(content)).convert("RGB") for name, content in contents.items()}
    made = {name: processor(images=[picture], return_tensors="np") for name, picture in opened.items()}
    return {name: {key: np.array(one[key]) for key in ("pixel_values", "image_grid_thw")} for name, one in made.items()}
