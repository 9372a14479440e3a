"""The refusals of environments that are unknown, lack an image, cannot be played, or have no words for a new model."""

import asyncio
from collections.abc import Iterator, Sequence

from ...envs.base import TurnEnv
from ...envs.errors import EnvError, UnknownEnvironment
from ...envs.registry import spec
from ...envs.runner.env_thread import EnvThread
from ...envs.sandboxes import missing_images
from ..config.sections import HELD_OUT_SEED, EnvironmentConfig
from ..warmup.vocabulary import closed_vocabulary
from .refusal import RUNS, Command, Cost, Refusal, Refused, Subject, refuses


def known(environments: Sequence[EnvironmentConfig]) -> list[EnvironmentConfig]:
    """Return those environments that are registered."""
    return [one for one in environments if not _unknown(one.id)]


def _unknown(env_id: str) -> str:
    """Return why an id is not registered; empty if it is."""
    try:
        spec(env_id)
    except UnknownEnvironment as error:
        return str(error)
    return ""


@refuses("environments", Cost.CONFIGURATION, *RUNS, Command.PLAN, Command.EVAL)
def unknown_environments(subject: Subject) -> Iterator[Refusal]:
    """Refuse ids that are not registered."""
    for one in subject.config.environments:
        if reason := _unknown(one.id):
            yield Refusal("environments", reason)


@refuses("sandboxes", Cost.MACHINE, *RUNS)
def lacking_images(subject: Subject) -> Iterator[Refusal]:
    """Refuse environments whose image the sandbox backend lacks; of a run on a Ray cluster, only a wrong backend."""
    config = subject.config
    ids = [one.id for one in known(config.played_environments)]
    for reason in missing_images(ids, config.sandboxes, here=config.ray_address is None):
        yield Refusal("sandboxes", reason)


@refuses("model.path", Cost.ENVIRONMENTS, Command.TRAIN, Command.PLAN)
def missing_vocabulary(subject: Subject) -> None:
    """Refuse a new model for environments without a closed vocabulary."""
    config = subject.config
    if config.model.path is None and len(environments := known(config.environments)) == len(config.environments):
        closed_vocabulary(environments)


@refuses("--policy", Cost.ENVIRONMENTS, Command.EVAL)
def unplayable_environments(subject: Subject) -> None:
    """Refuse an environment that cannot be made, or lacks the method that the policy calls."""
    for one in known(subject.config.environments):
        asyncio.run(_play(subject, one))


async def _play(subject: Subject, environment: EnvironmentConfig) -> None:
    """Make an environment, and call the method of it that a policy without tokens calls.

    Raises:
        EnvError: the environment cannot be made.
        Refused: it lacks the method. Any other failure may be transient: the episodes record it.
    """
    timeouts, policy = subject.config.rollout.timeouts, subject.policy
    thread = EnvThread(environment.id, environment.options)
    await thread.make(timeouts.reset_s)
    called = {"random": TurnEnv.valid_actions, "oracle": TurnEnv.oracle}.get(policy)
    try:
        if called is not None:
            await thread.reset(HELD_OUT_SEED, "test", timeouts.reset_s)
            await thread.run(policy, lambda env: getattr(env, called.__name__)(), timeouts.step_s)
    except EnvError as error:
        if isinstance(error.__cause__, NotImplementedError):
            reason = f"--policy {policy} cannot play {environment.id}: {error.__cause__}"
            raise Refused([Refusal("--policy", reason)]) from error
    finally:
        await thread.close(timeouts.step_s)
