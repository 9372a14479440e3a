"""The refusal of environments whose first observation a policy cannot read, before anything is spent on them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ...agents.errors import ImagesUnsupported, too_long
from ...agents.players.policy import refuse_images
from ...agents.tokens.conversation import Conversation
from ...agents.tokens.renderer import Renderer
from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...errors import TurnwiseError
from ..config.sections import EnvironmentConfig
from .heldout import SEED


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a policy that reads tokens."""

    renderer: Renderer
    max_tokens: int
    """``max_context`` of the horizon: the tokens of a prompt and its answer."""


async def refuse_unseen(
    environments: Sequence[EnvironmentConfig], split: str, timeout_s: float, context: Context | None = None
) -> None:
    """Reset each environment once and check its first observation. ``timeout_s`` bounds each call.

    An environment that fails here is left to its episodes, which record the failure.

    Args:
        context: that of a policy that reads tokens; None for a server.

    Raises:
        ImagesUnsupported: an observation holds an image.
        TurnwiseError: a first observation does not fit the context.
    """
    looks = [_look(one, split, timeout_s, context) for one in environments]
    for found in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


async def _look(environment: EnvironmentConfig, split: str, timeout_s: float, context: Context | None) -> None:
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
        seen = await thread.reset(SEED, split, timeout_s)
    except EnvError:
        return
    finally:
        await thread.close(timeout_s)
    try:
        refuse_images(seen.images)
    except ImagesUnsupported as error:
        raise ImagesUnsupported(f"{environment.id}: {error}") from None
    if context is not None:
        tokens = await asyncio.to_thread(_prompt_tokens, context.renderer, thread.instructions, seen.text)
        if tokens >= context.max_tokens:
            raise TurnwiseError(
                f"{environment.id}: {too_long(tokens, context.max_tokens)}, so no episode would have a turn: raise "
                "`horizon.max_context`, or choose options of the environment with a shorter observation"
            )


def _prompt_tokens(renderer: Renderer, instructions: str, observation: str) -> int:
    conversation = Conversation(renderer, instructions)
    conversation.observe(observation)
    return len(conversation.prompt())
