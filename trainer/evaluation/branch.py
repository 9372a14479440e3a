"""Play new episodes from a step of a stored trajectory, as a run of their own in the same store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...agents.reexecution.continuation import BranchRefused, StoredStart, continue_from
from ...agents.reexecution.stored import load
from ...base.process import event_loop
from ...envs.sandboxes import sandbox_settings
from ...records import Group, GroupState, Outcome, Purpose
from ...store.database import Database
from ..config.sections import EnvironmentConfig
from ..preflight.refusal import Command
from ..shutdown import SHUTDOWN
from .session import Players, session
from .stored_policy import named_policy

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
        episodes = [
            {name: value for name, value in asdict(episode).items() if name in kept} for episode in self.episodes
        ]
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
    sandboxes: Mapping[str, Any] | None = None,
    api_key_env: str = "",
) -> Branches:
    """Play ``episodes`` new episodes from step ``at`` of a stored trajectory, after its first ``at`` actions.

    The limit on turns is that of the trajectory; the others are those of ``turnwise eval``. The temperature is that of
    the training, whose choice at the step is repeated. Nothing is stored if the
    prefix is not reproduced.

    Args:
        policy: ``random``, ``oracle``, a run of the store (``RUN``, ``RUN@UPDATE``), the folder of a checkpoint, a hub
            id, or the URL of an OpenAI-compatible server.
        turns: replaces the turns of the trajectory's horizon; the turns of the prefix count.
        temperature: replaces that of the training of the checkpoint's run; 0 is greedy.
        sandboxes: replaces settings of the sandboxes by key.
        api_key_env: name of the environment variable with the key of a server.

    Raises:
        NotFound: the trajectory is not in the store.
        BranchRefused: no episode can begin at this step.
        TurnwiseError: the policy is none of these.
    """
    sandbox_settings(sandboxes or {})  # refused before the store is read
    chosen = named_policy(database, policy, seed, api_key_env)
    stored = load(database, trajectory)
    start, task = continue_from(stored, at), stored.group.task
    max_turns = turns or stored.group.horizon.max_turns
    if at >= max_turns:
        raise BranchRefused(
            f"trajectory {trajectory} cannot be branched at step {at}: its horizon of {max_turns} turns leaves none; "
            f"choose `--turns {at + 1}` or more"
        )
    environment = EnvironmentConfig(id=task.env_id, options=dict(task.options))
    with session(database, Command.BRANCH, chosen, [environment], max_turns, temperature, sandboxes) as opened:
        event_loop.run(start.check())
        run, prefix = opened.run, stored.group.prompt_prefix
        group = Group(f"{run}:0", run, task, opened.horizon, episodes, Purpose.EVAL, prefix)
        played = opened.play(lambda players: _play(players, group, start), branched_from=trajectory, branched_at=at)
    return Branches(run, trajectory, at, played)


async def _play(players: Players, group: Group, start: StoredStart) -> Sequence[Outcome]:
    await players.store.open_group(group)
    played = await players.play(group, [start] * group.size)
    await players.store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
    return played
