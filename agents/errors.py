"""Errors that end an episode on the policy's side."""

from collections.abc import Sequence

from ..errors import TurnwiseError
from ..records import Limit, Message


class EngineFailed(TurnwiseError):
    """The engine or the server failed: the episode ends as ``engine_error``, and no success rate counts it."""


class PolicyFailed(TurnwiseError):
    """The policy returned no action, or none in time: the episode ends as ``policy_error``.

    A success rate counts the episode as a failure.
    """


class ModelRefused(PolicyFailed):
    """The model answered with a refusal."""


class ContextOutgrown(TurnwiseError):
    """A server reports that the conversation no longer fits: the episode ends as ``truncated``."""


class UnusableChat(TurnwiseError):
    """The tokenizer or the chat template of a model cannot hold a conversation with it."""


class ImagesUnsupported(TurnwiseError):
    """The policy reads text only, and the environment returns images: the policy cannot play any episode of it."""


FIRST_OBSERVATION = "the first observation has"
"""The beginning of the reason of an episode that ended before its first turn: its prompt does not fit."""


def too_long(tokens: int, max_context: int) -> str:
    """Return the reason for which a first prompt of ``tokens`` leaves no token for an answer."""
    return (
        f"{FIRST_OBSERVATION} {tokens} tokens, `horizon.max_context` is {max_context} (the instructions and the prompt "
        "prefix count)"
    )


class HorizonReached(Exception):
    """The limit on turns, tokens or context was reached, or the rollout controller stopped the episode, which then has
    no ``limit``: the episode ends as ``truncated``.

    ``messages`` are those of a turn that the limit ended before its action. They are stored, but belong to no step and
    are not trained on.
    """

    def __init__(self, reason: str, limit: Limit | None = None, messages: Sequence[Message] = ()) -> None:
        super().__init__(reason)
        self.limit = limit
        self.messages = messages
