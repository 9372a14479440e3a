"""The images of the observations of a run, by the spaces of its environments: none is played to plan a run.

Gymnasium is imported where it is used: `make test-gpu` plans the learner without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .model_shape import ModelShape

if TYPE_CHECKING:
    from ..config.schema import RunConfig

LEAST_TOKENS = 80
"""Tokens of a small image, at most: the image processors of published models enlarge one to 65,536 pixels."""


@dataclass(frozen=True, slots=True)
class ObservedImages:
    """The images of the observations of a run, at most."""

    count: int
    """Per observation."""
    tokens: int
    """Per image."""


NO_IMAGES = ObservedImages(0, 0)


def observed_images(config: RunConfig, shape: ModelShape) -> ObservedImages:
    """Return the images that the policy reads: none if the model reads text alone.

    Raises:
        EnvError: an environment cannot be made.
    """
    if shape.vision is None:
        return NO_IMAGES
    from ...envs.runner.once import call_once
    from ...envs.spaces import image_sizes

    sizes = [
        call_once(one.id, one.options, "observation_space", lambda env: image_sizes(env.observation_space))
        for one in config.environments
    ]
    least = LEAST_TOKENS if config.model.path is not None else 1
    tokens = [max(least, shape.vision.image_tokens(*size)) for each in sizes for size in each]
    return ObservedImages(max(map(len, sizes)), max(tokens, default=0))
