"""Play new episodes from a step of a stored trajectory, as a run of their own in the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...agents.reexecution.continuation import BranchRefused, check_branch, continue_from, reach
from ...agents.reexecution.environments import CALL_TIMEOUT_S
from ...agents.reexecution.stored import Stored, load
from ...envs.runner.env_thread import EnvThread
from ...records import Group, GroupState, Outcome, Purpose, Trajectory
from ...store.database import Database
from ..config.sections import EnvironmentConfig
from ..preflight.refusal import Command
from ..shutdown import SHUTDOWN
from .policy import Policy
from .session import Players, Session, session
from .settings import settings_of

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
        policy: ``random``, ``oracle``, the folder of a checkpoint, a hub id, or the URL of an OpenAI-compatible server.
        turns: replaces the turns of the trajectory's horizon; the turns of the prefix count.
        temperature: replaces the temperature of the checkpoint's run.
        api_key_env: name of the environment variable with the key of a server.

    Raises:
        NotFound: the trajectory is not in the store.
        BranchRefused: no episode can begin at this step.
        TurnwiseError: the policy is none of these.
    """
    chosen = Policy.named(policy, seed, api_key_env)
    stored = load(database, trajectory)
    check_branch(stored, at)
    task = stored.group.task
    settings = settings_of(chosen.name, turns or stored.group.horizon.max_turns, temperature)
    if at >= settings.horizon.max_turns:
        raise BranchRefused(
            f"trajectory {trajectory} cannot be branched at step {at}: its horizon of {settings.horizon.max_turns} "
            f"turns leaves none; choose `--turns {at + 1}` or more"
        )
    environment = EnvironmentConfig(id=task.env_id, options=dict(task.options))
    with session(database, Command.BRANCH, chosen, settings, environment) as opened:
        asyncio.run(_reach(stored, at))
        played = opened.play(
            lambda players: _play(opened, players, stored, at, episodes), branched_from=trajectory, branched_at=at
        )
    return Branches(opened.run, trajectory, at, played)


async def _play(opened: Session, players: Players, stored: Stored, at: int, episodes: int) -> list[Outcome]:
    store, settings, policy = players.store, opened.settings, opened.policy
    of, places = stored.group, asyncio.Semaphore(opened.places)
    group = Group(f"{opened.run}:0", opened.run, of.task, settings.horizon, episodes, Purpose.EVAL, of.prompt_prefix)

    async def one(member: int) -> Outcome:
        head = Trajectory(
            f"{group.id}-{member}",
            opened.run,
            group.id,
            member,
            attempt=0,
            source=policy.source,
            policy=policy.shown,
            branched_from=stored.trajectory.id,
            branched_at=at,
        )
        async with places:
            return await continue_from(stored, at, group, head, players.create, store.client, settings.timeouts)

    await store.open_group(group)
    played = await asyncio.gather(*map(one, range(episodes)))
    await store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
    return played


async def _reach(stored: Stored, at: int) -> None:
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
