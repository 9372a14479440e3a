"""One session of a command that plays: a run of its own in the store, and the players of one policy.

``session`` begins it: its signals, its refusals, and its lock. ``Session.play`` starts the players, with Ray and an
engine if the policy is a model, records the run, and closes everything, also after a signal.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from ... import __version__
from ...agents.rollout.assignment import Assignment
from ...agents.rollout.group_runner import GroupRunner
from ...agents.rollout.progress import Start
from ...base.logs import log_errors
from ...base.process import event_loop
from ...base.process.start import restore
from ...envs.sandboxes import any_sandboxed, lease_in_process
from ...envs.tasks import env_key_of
from ...errors import FAILED, TurnwiseError
from ...records import Group, Horizon, Outcome
from ...store import queries
from ...store.database import Database
from ...store.errors import NotFound
from ...store.run_lock import hold_evaluation
from ...store.run_store import RunStore, finish_if_running
from ...store.writing.client import StoreClient
from ...store.writing.commit_queue import CommitQueue
from ..config.schema import NAME, NAME_MAX_CHARS, RunConfig
from ..config.sections import EnvironmentConfig
from ..preflight.check import check
from ..preflight.refusal import Command, Stage, Subject, refuse
from ..shutdown import SHUTDOWN
from ..telemetry.code_identity import git_revision, package_versions
from .policy import Policy, is_model, session_config

if TYPE_CHECKING:
    from ..cluster.engines import EngineGroup

LOG = logging.getLogger(__name__)

CONCURRENCY = 64
"""Episodes at once in this process."""
SANDBOXED_CONCURRENCY = 8
"""Of those, in environments that hold sandboxes of this process."""
FAILED_CLOSE_TIMEOUT_S = 3.0
"""Seconds the actors get to close after Ray died."""
ERROR_MAX_CHARS = 4000
"""Length of the error in the run's row."""

T = TypeVar("T")


class NameTaken(TurnwiseError):
    """The name of a session's run cannot be used."""


@dataclass(frozen=True, slots=True)
class Players:
    """The open players of a session, and their path into the store."""

    store: RunStore
    assign: Callable[[Group, Sequence[Start]], Awaitable[Sequence[Outcome]]]

    async def play(self, group: Group, starts: Sequence[Start] = ()) -> Sequence[Outcome]:
        """Play the members of an open group to their ends, and return their outcomes.

        Args:
            starts: the points at which the members begin; empty: each with a reset.
        """
        return await self.assign(group, starts)


@dataclass(frozen=True, slots=True)
class Session:
    """A run of its own that plays environments with one policy."""

    database: Database
    command: Command
    policy: Policy
    config: RunConfig

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.config.name

    @property
    def horizon(self) -> Horizon:
        """The horizon of its episodes."""
        return self.config.horizon.longest()

    def play(self, work: Callable[[Players], Awaitable[T]], **row: object) -> T:
        """Start the players, record the run, and return the result of ``work``. The first signal cancels it.

        Args:
            row: the values in the run's row besides the policy, its seed and the settings.

        Raises:
            TurnwiseError: the players did not start, Ray died, or ``work`` raised it.
        """
        if self.policy.folder is None:
            return event_loop.run(_until_signal(self._play(work, row)))
        from ..cluster.runtime import start_ray, stop_ray

        restore()
        start_ray()
        try:
            return event_loop.run(_until_signal(self._play(work, row)))
        finally:
            stop_ray()

    async def _play(self, work: Callable[[Players], Awaitable[T]], row: Mapping[str, object]) -> T:
        opened = _players_in_process if self.policy.folder is None else _players_of_model
        rollout = self.config.rollout.model_copy(update={"temperature": self.config.evaluation_temperature})
        settings = {"horizon": asdict(self.horizon), "rollout": rollout.model_dump(mode="json")}
        config = {"policy": self.policy.shown, "seed": self.policy.seed, **row, **settings}
        async with opened(self) as players, _recorded(players.store, config):
            return await work(players)


@contextmanager
def session(
    database: Database,
    command: Command,
    policy: Policy,
    environments: Sequence[EnvironmentConfig],
    max_turns: int | None,
    temperature: float | None,
    sandboxes: Mapping[str, Any] | None = None,
    name: str = "",
    rollout: Mapping[str, Any] | None = None,
    config: RunConfig | None = None,
    max_tokens: int | None = None,
) -> Iterator[Session]:
    """Begin a session that nothing refuses; a signal stops it.

    Args:
        max_turns: overrides the limit on turns of the checkpoint's run.
        temperature: overrides that of its evaluations; of its training for branches.
        sandboxes: overrides its settings of sandboxes by key.
        name: of the session's run; empty to derive one from the policy and the time.
        rollout: overrides its settings of `[rollout]` by key.
        config, max_tokens: as those of ``session_config``.

    Raises:
        Refused: the policy cannot play an environment here.
        NameTaken: the store has a run of this name.
        TurnwiseError: as ``session_config``.
    """
    run = _new_name(database, name) if name else _run_name(command, policy)
    evaluates = command is Command.EVAL
    chosen = session_config(
        run,
        policy.name,
        environments,
        max_turns,
        temperature,
        sandboxes,
        rollout,
        evaluates=evaluates,
        config=config,
        max_tokens=max_tokens,
    )
    lease_in_process(chosen.sandboxes)
    SHUTDOWN.hint = "stopping the episodes (a second signal ends them at once)"
    SHUTDOWN.record = partial(finish_if_running, database, run)
    SHUTDOWN.unblock()
    refuse(check(Subject(chosen, command, model=policy.folder, policy="" if policy.folder else policy.name)))
    database.wait_for_outages(chosen.store_timeout_s)
    with hold_evaluation(database, run, SHUTDOWN.abandon):
        yield Session(database, command, policy, chosen)


@asynccontextmanager
async def _players_in_process(session: Session) -> AsyncIterator[Players]:
    """Open the players of a policy without an engine."""
    policy, timeouts = session.policy, session.config.rollout.timeouts
    server = policy.server(session.config.evaluation_temperature, timeouts.turn_s)
    writer = CommitQueue(session.database)
    client = StoreClient(writer.run, session.database.blobs, session.database.retry_s)
    slots = {
        env_key_of(environment.id, environment.options): _places(session) for environment in session.config.environments
    }
    create = partial(policy.token_free_player, server, timeouts)
    kept = session.config.rollout.screenshots
    runner = GroupRunner(client, create, timeouts, slots, policy.shown, policy.source, screenshots=kept)
    try:
        store = RunStore(session.run, session.database, client)
        yield Players(store, lambda group, starts: runner.play(Assignment.whole(group, starts=starts)))
    finally:
        await runner.close()
        if server is not None:
            await server.close()
        await asyncio.to_thread(writer.close)


def _places(session: Session) -> int:
    """Return how many episodes this process plays at once."""
    if not any_sandboxed(environment.id for environment in session.config.environments):
        return CONCURRENCY
    # An episode may hold one sandbox for itself and one for grading.
    return min(SANDBOXED_CONCURRENCY, max(1, session.config.sandboxes.max_per_node // 2))


@asynccontextmanager
async def _players_of_model(session: Session) -> AsyncIterator[Players]:
    """Start the engine of a model, and rollout workers. Ray must be up.

    Raises:
        TurnwiseError: an actor did not start, or the model cannot read the environment.
    """
    from ..cluster.actors import Cluster
    from ..rollout.group_player import play_group

    config, folder = session.config, session.policy.folder
    assert folder is not None  # noqa: S101
    cluster = Cluster.start(config, session.database, folder)
    store = RunStore(session.run, session.database, cluster.store.client)
    try:
        refuse(await asyncio.to_thread(check, Subject(config, session.command, model=folder), Stage.ACTORS))
        await cluster.ready()
        await cluster.engines.serve_loaded(0)
        pool, timeout_s = cluster.workers, config.rollout.group_timeout_s
        yield Players(
            store,
            lambda group, starts: _while_served(
                cluster.engines, play_group(pool, store, group, timeout_s, starts=starts)
            ),
        )
    finally:
        async with asyncio.timeout(FAILED_CLOSE_TIMEOUT_S if SHUTDOWN.failure else None):
            await cluster.close()


async def _while_served(engines: EngineGroup, playing: Awaitable[T]) -> T:
    """Return what is played, unless the engines cannot serve. Raises their failure."""
    played = await playing
    if engines.failure is not None:
        raise engines.failure
    return played


def _new_name(database: Database, name: str) -> str:
    """Return a name that no run has.

    Raises:
        NameTaken: the store has a run of this name, or the name has other characters than that of a run.
    """
    if not re.fullmatch(NAME, name) or len(name) > NAME_MAX_CHARS:
        raise NameTaken(f"`--name {name}`: at most {NAME_MAX_CHARS} letters, digits and `._-`, a letter or digit first")
    with database.read() as conn, suppress(NotFound):
        queries.find_run(conn, name)
        raise NameTaken(f"`--name {name}`: the store has a run of this name; choose another one")
    return name


def _run_name(command: Command, policy: Policy) -> str:
    """Return a new name for the run of a command."""
    name = Path(policy.shown).name if is_model(policy.shown) else policy.shown
    short = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:40]
    return f"{command}-{short}-{strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:4]}"


async def _until_signal(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, which the first signal cancels.

    Raises:
        TurnwiseError: Ray died.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def cancel(reason: str) -> None:
        loop.call_soon_threadsafe(task.cancel)

    with SHUTDOWN.handled_by(cancel, cancel):
        return await task


@asynccontextmanager
async def _recorded(store: RunStore, config: Mapping[str, Any]) -> AsyncIterator[None]:
    """Record the session as a run that ends as finished, stopped or failed; an error has the exit code of a failure."""
    await store.create(
        config=config,
        config_hash=hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        kind="eval",
        code_version=__version__,
        git_revision=await asyncio.to_thread(git_revision),
        packages=package_versions(),
    )
    try:
        yield
    except BaseException as error:
        if isinstance(error, TurnwiseError):
            error.exit_code = FAILED
        if SHUTDOWN.failure:
            raise  # recorded already; the actors do not answer
        status = "stopped" if isinstance(error, asyncio.CancelledError) else "failed"
        shown = SHUTDOWN.reason or "interrupted" if status == "stopped" else f"{type(error).__name__}: {error}"
        with log_errors(LOG, "the end of the session could not be recorded"):
            await asyncio.shield(store.finish(status, shown[:ERROR_MAX_CHARS]))
        raise
    await store.finish("finished")
