"""The refusal of environments whose first observation a policy cannot read, before anything is spent on them."""

import asyncio
from collections.abc import Iterator

from ...agents.errors import ImagesUnsupported, too_long
from ...agents.players.policy import refuse_images
from ...agents.tokens.conversation import Conversation
from ...agents.tokens.renderer import Renderer
from ...agents.tokens.renderers import load_renderer
from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ..config.sections import HELD_OUT_SEED, EnvironmentConfig
from .environments import known
from .refusal import Command, Cost, Refusal, Stage, Subject, refuses


@refuses("environments", Cost.ENVIRONMENTS, Command.EVAL)
def images_for_a_server(subject: Subject) -> Iterator[Refusal]:
    """Refuse environments with images for a server, which has no token limit that is known here."""
    if "://" in subject.policy:
        yield from _unread(subject, None)


@refuses("environments", Cost.ENVIRONMENTS, Command.TRAIN, Command.FORK, Command.EVAL, stage=Stage.ACTORS)
def unread_observations(subject: Subject) -> Iterator[Refusal]:
    """Refuse environments whose first observation has an image, or does not fit the context of the model.

    Checked while the actors start, because a reset may lease a sandbox from the run.
    """
    if subject.model is not None and subject.config.played_environments:
        yield from _unread(subject, load_renderer(subject.model))


def _unread(subject: Subject, renderer: Renderer | None) -> Iterator[Refusal]:
    """Reset each environment once. One that fails here is left to its episodes, which record the failure."""

    async def found() -> list[Refusal | None]:
        return await asyncio.gather(
            *(_look(subject, one, renderer) for one in known(subject.config.played_environments))
        )

    yield from filter(None, asyncio.run(found()))


async def _look(subject: Subject, environment: EnvironmentConfig, renderer: Renderer | None) -> Refusal | None:
    timeout_s, max_context = subject.config.rollout.reset_timeout_s, subject.config.max_context
    split = "test" if subject.command is Command.EVAL else "train"
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
        seen = await thread.reset(HELD_OUT_SEED, split, timeout_s)
    except EnvError:
        return None
    finally:
        await thread.close(timeout_s)
    try:
        refuse_images(seen.images)
    except ImagesUnsupported as error:
        return Refusal("environments", f"{environment.id}: {error}")
    if renderer is None or (tokens := _prompt_tokens(renderer, thread.instructions, seen.text)) < max_context:
        return None
    return Refusal(
        "horizon.max_context",
        f"{environment.id}: {too_long(tokens, max_context)}, so no episode would have a turn",
        "raise `horizon.max_context`, or choose options of the environment with a shorter observation",
    )


def _prompt_tokens(renderer: Renderer, instructions: str, observation: str) -> int:
    conversation = Conversation(renderer, instructions)
    conversation.observe(observation)
    return len(conversation.prompt())
