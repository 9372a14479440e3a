"""What can end an episode on the policy's side."""

from ..errors import TurnwiseError


class EngineFailed(TurnwiseError):
    """The engine did not answer, or answered without token ids: the episode ends with ``policy_error``."""


class ImagesUnsupported(TurnwiseError):
    """The policy reads text only and the environment shows images: no episode of it can be played."""


class HorizonReached(Exception):
    """Turns, tokens or context ran out: the episode ends with ``truncated``."""
