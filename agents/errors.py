"""Errors that end an episode on the policy's side."""

from ..errors import TurnwiseError


class EngineFailed(TurnwiseError):
    """The engine did not respond, or returned no token ids: the episode ends as ``policy_error``."""


class ImagesUnsupported(TurnwiseError):
    """The policy reads text only, and the environment returns images: the policy cannot play any episode of it."""


class HorizonReached(Exception):
    """The limit on turns, tokens or context was reached: the episode ends as ``truncated``."""
