"""The refusals of environments.

An environment is refused if it is unknown, lacks an image, has no words for a new model, cannot be played, has a first
observation that the policy cannot read, or has rewards that an agent can forge.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...agents.errors import ImagesUnsupported, too_long
from ...agents.model_folder import base_model, reads_images
from ...agents.players.policy import refuse_images
from ...agents.tiny_model import new_tokenizer
from ...agents.tiny_vision_model import new_vision_tokenizer
from ...agents.tokens.conversation import Conversation
from ...agents.tokens.renderer import Image, Renderer
from ...agents.tokens.renderers import load_renderer
from ...base.process import event_loop
from ...base.process.start import absolute
from ...envs.base import TurnEnv
from ...envs.errors import EnvError, EnvironmentFailed, NotTrainable, UnknownEnvironment
from ...envs.registry import check_options, spec
from ...envs.runner.env_thread import EnvThread
from ...envs.sandboxes import any_sandboxed, missing_images
from ...envs.spaces import has_images
from ...errors import TurnwiseError
from ...records import SPLITS
from ...store import queries
from ...store.database import Database
from ..config.sections import HELD_OUT_SEED, EnvironmentConfig
from ..warmup.vocabulary import any_images, closed_vocabulary
from .refusal import RUNS, Command, Cost, Refusal, Stage, Subject, refuses

GROUPS_PER_READ = 1000
CALLED = {"random": TurnEnv.valid_actions, "oracle": TurnEnv.oracle}
"""The method of an environment that a policy without tokens, or a warm-up from this source, calls."""


def known(environments: Sequence[EnvironmentConfig]) -> list[EnvironmentConfig]:
    """Return those environments that are registered and take their options."""
    return [one for one in environments if not _unknown(one.id) and not _unfit(one)]


def _unknown(env_id: str) -> str:
    """Return why an id is not registered; empty if it is."""
    try:
        spec(env_id)
    except UnknownEnvironment as error:
        return str(error)
    return ""


def _unfit(environment: EnvironmentConfig) -> str:
    """Return which option the environment does not take; empty if it takes all."""
    try:
        check_options(environment.id, environment.options)
    except EnvironmentFailed as error:
        return str(error)
    return ""


@refuses("environments", Cost.CONFIGURATION, *RUNS, Command.PLAN, Command.EVAL)
def unknown_environments(subject: Subject) -> Iterator[Refusal]:
    """Refuse ids that are not registered."""
    for environment in subject.config.environments:
        if reason := _unknown(environment.id):
            yield Refusal("environments", reason)


@refuses("environments", Cost.CONFIGURATION, *RUNS, Command.PLAN, Command.EVAL)
def unfit_options(subject: Subject) -> Iterator[Refusal]:
    """Refuse options that the constructor of an environment does not take, or of another type than it declares."""
    for environment in subject.config.environments:
        if not _unknown(environment.id) and (reason := _unfit(environment)):
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


@refuses("environments", Cost.ENVIRONMENTS, Command.TRAIN, Command.PLAN)
def unused_settings_of_images(subject: Subject) -> Iterator[Refusal]:
    """Refuse settings of images, other than their defaults, of environments without images.

    An environment that cannot be made is left to its episodes, and the images of an offline run are in its store.
    """
    config = subject.config
    sections: dict[str, Any] = {"horizon.max_images": config.horizon}
    if config.model.path is None:
        sections["model.new.patch_size"] = config.model.new
    changed = [key for key, section in sections.items() if _is_changed(section, key.rpartition(".")[2])]
    environments = known(config.environments)
    if not changed or config.offline.run is not None or len(environments) < len(config.environments):
        return
    with suppress(EnvError):
        if not any_images(environments):
            reason = "concerns images, and no environment of this run shows one"
            remedy = "remove the key, or choose an environment, or an option of it, with images"
            yield from (Refusal(key, f"`{key}` {reason}", remedy) for key in changed)


def _is_changed(section: Any, name: str) -> bool:
    """Return whether a key of a section of the configuration has another value than its default."""
    return bool(getattr(section, name) != type(section).model_fields[name].default)


@asynccontextmanager
async def _made(environment: EnvironmentConfig, timeout_s: float) -> AsyncIterator[EnvThread]:
    """Make an environment for the ``async with`` block. Raises EnvError if it cannot be made."""
    thread = EnvThread(environment.id, environment.options)
    try:
        await thread.make(timeout_s)
        yield thread
    finally:
        await thread.close(timeout_s)


def _each(
    environments: Sequence[EnvironmentConfig], look: Callable[[EnvironmentConfig], Awaitable[Refusal | None]]
) -> Iterator[Refusal]:
    """Yield what ``look`` finds in the environments, at all of which it looks at once."""

    async def found() -> list[Refusal | None]:
        return await asyncio.gather(*map(look, environments))

    yield from filter(None, event_loop.run(found()))


@refuses("--policy", Cost.ENVIRONMENTS, Command.EVAL)
def unplayable_environments(subject: Subject) -> Iterator[Refusal]:
    """Refuse an environment that cannot be made, lacks the method that the policy calls, or has images for a server."""

    async def play(environment: EnvironmentConfig) -> Refusal | None:
        timeouts, policy = subject.config.rollout.timeouts, subject.policy
        async with _made(environment, timeouts.reset_s) as thread:
            if "://" in policy:  # a server, whose limit on tokens is not known here
                with suppress(EnvError):
                    return await _look(subject, environment, thread, None)
            try:
                if (called := CALLED.get(policy)) is not None:
                    await thread.reset(await _first_task(thread, "test", timeouts.reset_s), "test", timeouts.reset_s)
                    await thread.run(policy, lambda env: getattr(env, called.__name__)(), timeouts.step_s)
            except EnvError as error:  # any other cause may be transient: the episodes record it
                if isinstance(error.__cause__, NotImplementedError):
                    reason = f"--policy {policy} cannot play {environment.id}: {error.__cause__}"
                    return Refusal("--policy", reason)
        return None

    return _each(known(subject.config.environments), play)


@refuses("sft_warmup.source", Cost.ENVIRONMENTS, Command.TRAIN)
def lacking_actions(subject: Subject) -> Iterator[Refusal]:
    """Refuse a warm-up in an environment that does not name its actions; one with sandboxes finds it later."""
    timeouts, source = subject.config.rollout.timeouts, subject.config.warmup_source or ""
    method = CALLED[source].__name__ if source in CALLED else ""

    async def look(environment: EnvironmentConfig) -> Refusal | None:
        try:
            async with _made(environment, timeouts.reset_s) as thread:
                await thread.reset(await _first_task(thread, "train", timeouts.reset_s), "train", timeouts.reset_s)
                await thread.run(source, lambda env: getattr(env, method)(), timeouts.step_s)
        except EnvError as error:
            if isinstance(error.__cause__, NotImplementedError):
                reason = f"the warm-up learns from `{method}()`, and {error.__cause__}"
                remedy = f"define `{method}()`, or set `sft_warmup.source` to a run with demonstrations"
                return Refusal("sft_warmup.source", reason, remedy)
        return None

    if method:
        yield from _each([one for one in known(subject.config.environments) if not any_sandboxed([one.id])], look)


@refuses("environments", Cost.ENVIRONMENTS, Command.TRAIN, Command.FORK, Command.EVAL)
def images_in_space(subject: Subject) -> Iterator[Refusal]:
    """Refuse environments whose observation space has images, before anything starts; a baseline reads no observation.

    An environment that cannot be made is left to its episodes, which record the failure.
    """

    async def look(environment: EnvironmentConfig) -> Refusal | None:
        try:
            async with _made(environment, subject.config.rollout.reset_timeout_s) as thread:
                if await thread.run("observation_space", _shows_images, subject.config.rollout.step_timeout_s):
                    refuse_images([b""])
        except ImagesUnsupported as error:
            return Refusal("environments", f"{environment.id}: {error}")
        except EnvError:
            return None
        return None

    folder = subject.model
    makes_model = subject.command is Command.TRAIN and subject.config.model.path is None
    reads = makes_model or (folder is not None and folder.is_dir() and reads_images(folder))
    if subject.policy not in CALLED and not reads:
        yield from _each(known(subject.config.played_environments), look)


def _shows_images(env: TurnEnv) -> bool:
    return has_images(getattr(env, "observation_space", None))


@refuses("environments", Cost.MODEL, Command.TRAIN)
def unread_observations(subject: Subject) -> Iterator[Refusal]:
    """Refuse environments with a first observation that the policy cannot read, or longer than the context.

    An environment that fails here is left to its episodes, which record the failure. A model that cannot be read has
    its own refusal. An answer that the limit on a turn cuts is reported by the lines of the run.
    """
    config, environments = subject.config, _without_sandboxes(subject)
    if not environments:
        return
    with TemporaryDirectory() as folder:
        try:
            if config.model.path is None:
                words = closed_vocabulary(environments)
                new: Any = new_tokenizer
                if any_images(environments):
                    new = partial(new_vision_tokenizer, patch_size=config.model.new.patch_size)
                renderer = load_renderer(new(Path(folder), words, config.max_context))
            else:
                renderer = load_renderer(base_model(absolute(config.model.path)))
        except (TurnwiseError, OSError, ValueError):
            return
        yield from _unread(subject, environments, renderer)


def _without_sandboxes(subject: Subject) -> list[EnvironmentConfig]:
    """Return the environments that are checked before anything starts: their reset leases no sandbox from the run, and
    the tokenizer of the model is on this machine."""
    path = subject.config.model.path
    if path is not None and not absolute(path).is_dir():
        return []
    return [one for one in known(subject.config.played_environments) if not any_sandboxed([one.id])]


@refuses("environments", Cost.ENVIRONMENTS, Command.TRAIN, Command.FORK, Command.EVAL, stage=Stage.ACTORS)
def unread_observations_of_sandboxes(subject: Subject) -> Iterator[Refusal]:
    """Refuse, as ``unread_observations`` does, the environments that it leaves out, while the actors start."""
    if subject.model is None:
        return
    checked = _without_sandboxes(subject) if subject.command is Command.TRAIN else []
    if left := [one for one in known(subject.config.played_environments) if one not in checked]:
        yield from _unread(subject, left, load_renderer(subject.model))


def _unread(subject: Subject, environments: Sequence[EnvironmentConfig], renderer: Renderer) -> Iterator[Refusal]:
    async def look(environment: EnvironmentConfig) -> Refusal | None:
        try:
            async with _made(environment, subject.config.rollout.reset_timeout_s) as thread:
                return await _look(subject, environment, thread, renderer)
        except EnvError:
            return None

    return _each(environments, look)


async def _look(
    subject: Subject, environment: EnvironmentConfig, thread: EnvThread, renderer: Renderer | None
) -> Refusal | None:
    """Return why the first observation cannot be read; without a renderer, tokens are not counted.

    Raises:
        EnvError: the environment cannot be reset.
    """
    max_context = subject.config.max_context
    split = "test" if subject.command is Command.EVAL else "train"
    timeout_s = subject.config.rollout.reset_timeout_s
    seen = await thread.reset(await _first_task(thread, split, timeout_s), split, timeout_s)
    try:
        if renderer is None or not renderer.reads_images:
            refuse_images(seen.images)
    except ImagesUnsupported as error:
        return Refusal("environments", f"{environment.id}: {error}")
    if renderer is None:
        return None
    conversation = Conversation(renderer, thread.instructions)
    try:
        conversation.observe(seen.text, [Image.of(one) for one in seen.images])
    except ValueError as error:
        return Refusal("environments", f"{environment.id}: the model cannot read the first observation: {error}")
    if (tokens := len(conversation.prompt())) < max_context:
        return None
    return Refusal(
        "horizon.max_context",
        f"{environment.id}: {too_long(tokens, max_context)}, so no episode would have a turn",
        "raise `horizon.max_context`, or choose options of the environment with a shorter observation",
    )


async def _first_task(thread: EnvThread, split: str, timeout_s: float) -> int:
    """Return the seed of the first task of a split, or one of the held-out seeds if every seed is a task."""
    seeds = await thread.tasks(split, timeout_s)
    return HELD_OUT_SEED if seeds is None else seeds[0]


@refuses("environments", Cost.ENVIRONMENTS, Command.RESUME)
def changed_tasks(subject: Subject) -> Iterator[Refusal]:
    """Refuse to resume a run that played tasks which its environments no longer list, such as rows that were edited."""
    database, run, timeout_s = subject.database, subject.run, subject.config.rollout.reset_timeout_s

    async def look(environment: EnvironmentConfig) -> Refusal | None:
        try:
            async with _made(environment, timeout_s) as thread:
                listed = {split: await thread.tasks(split, timeout_s) for split in SPLITS}
        except EnvError:
            return None
        for split, seeds in listed.items():
            if database is None:
                break
            with database.read() as conn:
                played = queries.played_seeds(conn, run, environment.id, environment.options, split)
            if seeds is not None and (gone := played.difference(seeds)):
                return Refusal(
                    "environments",
                    f"{environment.id} no longer has {len(gone)} of the {len(played)} tasks of `{split}` that run "
                    f"`{run}` played: its rows or tasks were edited, moved or removed",
                    "restore them to resume the run, or add `--fork` to begin a new run from its newest checkpoint",
                )
        return None

    yield from _each(known(subject.config.played_environments), look)


@refuses("environments", Cost.ENVIRONMENTS, *RUNS)
def forgeable_rewards(subject: Subject) -> Iterator[Refusal]:
    """Make each environment once and call its ``check_trainable``.

    A check that fails in any way refuses the environment, because the agent may be able to forge its rewards. An
    environment that cannot be made is left to its episodes, which record the failure.

    An offline run checks the environments that the groups of the other run were played in, as they are now, also with
    other rewards (``offline.rewards``): a component may compute them from those of the environment.
    """
    timeout_s, stored = subject.config.rollout.reset_timeout_s, _stored(subject)

    async def forgeable(environment: EnvironmentConfig) -> Refusal | None:
        try:
            async with _made(environment, timeout_s) as thread:
                try:
                    await thread.run("cannot be trained on", lambda env: env.check_trainable(), timeout_s)
                except NotTrainable as error:
                    return Refusal("environments", str(error))
                except EnvError as error:
                    return Refusal(
                        "environments",
                        f"{error}; its `check_trainable` must return before a run trains on it",
                        "repair the environment or its tasks, or raise `rollout.reset_timeout_s` if the check needs "
                        "more time",
                    )
        except EnvError as error:
            if environment in stored:
                _unchecked(subject, str(error))
        return None

    return _each([*known(subject.config.played_environments), *stored], forgeable)


def _unchecked(subject: Subject, reason: str) -> None:
    subject.note(f"not checked whether an agent can forge the rewards: {reason}")


def _stored(subject: Subject) -> list[EnvironmentConfig]:
    """Return the environments of the groups that an offline run trains on.

    A store may hold imported episodes, so a module is imported only if the configuration names it.
    """
    source, database = subject.config.offline.run, subject.database
    if source is None or database is None:
        return []
    played = {str((one.id, one.options)): one for one in _played(database, source)}.values()
    foreign = {one.id for one in played if ":" in one.id} - {
        environment.id for environment in subject.config.environments
    }
    for name in sorted(foreign):
        _unchecked(subject, f"{name}: `environments` does not name it, so its module is not imported")
    return [one for one in played if one.id not in foreign]


def _played(database: Database, run: str) -> Iterator[EnvironmentConfig]:
    with database.read() as conn:
        names = [name for _, name in queries.scored_from(conn, run, 0)]
        for start in range(0, len(names), GROUPS_PER_READ):
            for group in queries.load_group_heads(conn, names[start : start + GROUPS_PER_READ]):
                yield EnvironmentConfig(id=group.task.env_id, options=dict(group.task.options))
