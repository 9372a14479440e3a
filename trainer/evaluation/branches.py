"""Play new episodes from a step of a stored trajectory, as a run of their own in the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ...agents.reexecution.continuation import BranchRefused, check_branch, continue_from, reach
from ...agents.reexecution.environments import CALL_TIMEOUT_S
from ...agents.reexecution.stored import Stored, load
from ...envs.runner.env_thread import EnvThread
from ...envs.sandboxes import any_sandboxed
from ...errors import TurnwiseError
from ...masking import without_secrets
from ...process.start import absolute, restore
from ...records import Group, GroupState, Outcome, Purpose, Source, Trajectory
from ...store.database import Database
from ...store.run_lock import hold_evaluation
from ...store.run_store import RunStore, finish_if_running
from ...store.writing.client import StoreClient
from ...store.writing.commit_queue import CommitQueue
from ..config.sections import EnvironmentConfig
from ..preflight.check import check
from ..preflight.refusal import Command, refuse
from ..shutdown import SHUTDOWN
from .engine_players import CreatePlayer, engine_players
from .recording import recorded, run_name, until_signal
from .settings import EvalSettings, checked_settings, is_model
from .standalone import CONCURRENCY, SANDBOXED_CONCURRENCY
from .token_free import TokenFreePlayers, check_key, is_token_free

CLOSE_REASON = "branches"


@dataclass(frozen=True, slots=True)
class Branches:
    """The new episodes."""

    run: str
    trajectory: str
    """Id of the trajectory that they branch from."""
    at: int
    """Index of their first own turn."""
    episodes: Sequence[Outcome]

    def json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        kept = ("trajectory", "status", "reward", "success", "turns", "error")
        episodes = [{name: value for name, value in asdict(one).items() if name in kept} for one in self.episodes]
        return {"run": self.run, "trajectory": self.trajectory, "at": self.at, "episodes": episodes}


@SHUTDOWN.receiving()
def branch(
    database: Database,
    trajectory: str,
    at: int,
    policy: str,
    *,
    episodes: int = 1,
    seed: int = 0,
    turns: int | None = None,
    temperature: float | None = None,
    api_key_env: str = "",
) -> Branches:
    """Play ``episodes`` new episodes from step ``at`` of a stored trajectory, after its first ``at`` actions.

    The limit on turns is that of the trajectory; the others are those of ``turnwise eval``. Nothing is stored if the
    prefix is not reproduced.

    Args:
        policy: ``random``, ``oracle``, the folder of a checkpoint, or the URL of an OpenAI-compatible server.
        turns: replaces the turns of the trajectory's horizon; the turns of the prefix count.
        temperature: replaces the temperature of the checkpoint's run.
        api_key_env: name of the environment variable with the key of a server.

    Raises:
        NotFound: the trajectory is not in the store.
        BranchRefused: no episode can begin at this step.
        TurnwiseError: the policy is none of these.
    """
    shown = without_secrets(policy)
    if not (is_token_free(policy) or is_model(policy)):
        raise TurnwiseError(
            f"--policy {shown}: neither random, oracle, a folder with a model (no config.json there), nor a URL"
        )
    check_key(policy, api_key_env)
    stored = load(database, trajectory)
    check_branch(stored, at)
    settings = checked_settings(policy, turns or stored.group.horizon.max_turns, temperature)
    if at >= settings.horizon.max_turns:
        raise BranchRefused(
            f"trajectory {trajectory} cannot be branched at step {at}: its horizon of {settings.horizon.max_turns} "
            f"turns leaves none; choose `--turns {at + 1}` or more"
        )
    run = run_name("branch", shown)
    task, model = stored.group.task, absolute(policy).resolve() if is_model(policy) else None
    config = settings.run_config(run, EnvironmentConfig(id=task.env_id, options=dict(task.options)))
    refuse(check(config, Command.BRANCH, model=model))
    SHUTDOWN.hint = "stopping the episodes (a second signal ends them at once)"
    SHUTDOWN.record = partial(finish_if_running, database, run)
    SHUTDOWN.unblock()
    asyncio.run(_can_be_reached(stored, at))
    plan = _Plan(database, run, stored, at, policy, episodes, seed, settings, api_key_env)
    with hold_evaluation(database, run, SHUTDOWN.abandon):
        return Branches(run, trajectory, at, _with_engine(plan) if is_model(policy) else _without_engine(plan))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The episodes to play."""

    database: Database
    run: str
    stored: Stored
    at: int
    policy: str
    episodes: int
    seed: int
    settings: EvalSettings
    api_key_env: str


def _without_engine(plan: _Plan) -> list[Outcome]:
    async def main() -> list[Outcome]:
        players = TokenFreePlayers(plan.policy, plan.seed, plan.settings, plan.api_key_env)
        writer = CommitQueue(plan.database)
        try:
            return await _play(plan, StoreClient(writer.run, plan.database.blobs), players.create, players.source)
        finally:
            await players.close()
            await asyncio.to_thread(writer.close)

    return asyncio.run(until_signal(main()))


def _with_engine(plan: _Plan) -> list[Outcome]:
    from ..cluster.runtime import start_ray, stop_ray

    folder = absolute(plan.policy).resolve()

    async def main() -> list[Outcome]:
        task = plan.stored.group.task
        async with engine_players(folder, task, plan.database, plan.run, plan.settings) as (client, create):
            return await _play(plan, client, create, Source.POLICY)

    restore()
    start_ray()
    try:
        return asyncio.run(until_signal(main()))
    finally:
        stop_ray()


async def _play(plan: _Plan, client: StoreClient, create: CreatePlayer, source: Source) -> list[Outcome]:
    stored, run, shown = plan.stored, plan.run, without_secrets(plan.policy)
    store = RunStore(run, plan.database, client)
    places = asyncio.Semaphore(SANDBOXED_CONCURRENCY if any_sandboxed([stored.group.task.env_id]) else CONCURRENCY)
    prefix = stored.group.prompt_prefix
    horizon = plan.settings.horizon
    group = Group(f"{run}:0", run, stored.group.task, horizon, plan.episodes, Purpose.EVAL, prefix)

    async def one(member: int) -> Outcome:
        trajectory = Trajectory(
            f"{group.id}-{member}",
            run,
            group.id,
            member,
            0,
            source=source,
            policy=shown,
            branched_from=stored.trajectory.id,
            branched_at=plan.at,
        )
        async with places:
            return await continue_from(stored, plan.at, group, trajectory, create, client, plan.settings.timeouts)

    config = {"seed": plan.seed, "branched_from": stored.trajectory.id, "branched_at": plan.at, **plan.settings.json()}
    async with recorded(store, shown, config):
        await store.open_group(group)
        played = await asyncio.gather(*(one(member) for member in range(plan.episodes)))
        await store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
        return list(played)


async def _can_be_reached(stored: Stored, at: int) -> None:
    """Check, before anything is stored, that the prefix is reproduced.

    Raises:
        BranchRefused: it is not.
        EnvError: the environment failed.
    """
    env_thread = EnvThread.of(stored.group.task)
    try:
        await env_thread.make(CALL_TIMEOUT_S)
        await reach(env_thread, stored, at)
    finally:
        await env_thread.close(CALL_TIMEOUT_S)
