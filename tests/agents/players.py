"""What the tests of the episode loop share: a store, groups, and small players that say what they are told to. They
stand in for the engine only to inject its faults.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.rollout.episode import PlayerTurn, Timeouts
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.envs.runner.env_thread import EnvThread, abandoned_threads
from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, Message, Outcome, Role, Source, Task, Trajectory
from turnwise.store.client import Send, StoreClient
from turnwise.store.database import Database, open_database
from turnwise.store.run_store import RunStore
from turnwise.store.writer import Writer

SITE = "turnwise/TextSite-v0"
HORIZON = Horizon(max_turns=6, max_tokens_per_turn=8, max_tokens_per_episode=64, max_context=512)
QUICK = Timeouts(reset_s=5.0, step_s=1.0, turn_s=5.0, group_s=20.0)


def group(task: Task, size: int = 1, horizon: Horizon = HORIZON, name: str = "g") -> Group:
    return Group(name, "r", task, horizon, size)


def site(family: str = "open") -> Task:
    return make_task(SITE, 3, "train", {"family": family})


class PlayOn:
    """Never stops an episode."""

    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        return ""


Say = Callable[[str], Awaitable[str]]
Script = Callable[[EnvThread, Trajectory], Say]


@dataclass
class Scripted:
    """Says what ``say`` answers, each time as two messages of one token."""

    say: Say
    turn: int = 0
    closed: bool = False

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        text = await self.say(observation)
        at = 2 * self.turn
        self.turn += 1
        parent = at - 1 if at else None
        asked = Message(at, parent, Role.USER, Source.POLICY, [1], [0], [float("nan")], [-1])
        said = Message(at + 1, at, Role.ASSISTANT, Source.POLICY, [2], [1], [-0.5], [0])
        return PlayerTurn(text, (asked, said), 1)

    def close(self) -> None:
        self.closed = True


def always(text: str) -> Say:
    async def say(_: str) -> str:
        return text

    return say


@dataclass
class Stage:
    """Groups played into a real store, through a ``send`` that a test may wrap."""

    database: Database
    send: Send
    players: list[Scripted] = field(default_factory=list)
    owners: list[EnvThread] = field(default_factory=list)
    player: Any = None
    """Plays instead of a scripted one."""
    concurrency: dict[str, int] = field(default_factory=dict)
    """Episodes at once by kind of environment."""

    async def play(
        self,
        say: Script,
        of: Group,
        timeouts: Timeouts = QUICK,
    ) -> list[Outcome]:
        store = await self.begin()
        await store.open_group(of)
        runner = self.runner(say, timeouts)
        try:
            return await runner.play(of, [(member, 0) for member in range(of.size)])
        finally:
            await runner.close()

    def store(self) -> RunStore:
        """Return the store as run ``r`` uses it."""
        return RunStore("r", self.database, StoreClient(self.send))

    async def begin(self) -> RunStore:
        """Store run ``r``, and return the store as it uses it."""
        store = self.store()
        await store.create(config={}, config_hash="c", kind="train", code_version="0")
        return store

    def runner(self, say: Script, timeouts: Timeouts = QUICK, send: Send | None = None) -> GroupRunner:
        """Return a runner that writes through ``send``, by default the stage's."""

        def player(owner: EnvThread, _: Group, trajectory: Trajectory) -> Any:
            if self.player is not None:
                return self.player
            made = Scripted(say(owner, trajectory))
            self.players.append(made)
            self.owners.append(owner)
            return made

        return GroupRunner(StoreClient(send or self.send), player, timeouts, self.concurrency, PlayOn())


def on_stage(tmp_path: Path, scenario: Callable[[Stage], Awaitable[Any]]) -> Any:
    """Run a scenario on a fresh SQLite store, for a minute at most."""

    async def bounded() -> Any:
        database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
        writer = Writer(database)
        try:
            async with asyncio.timeout(60):
                return await scenario(Stage(database, writer.run))
        finally:
            writer.close()
            database.close()

    return asyncio.run(bounded())


def oracle(owner: EnvThread, _: Trajectory) -> Say:
    """Does what is right."""

    async def say(observation: str) -> str:
        return await owner.run("oracle", lambda env: env.oracle(), 5)

    return say


def until_no_thread_is_lost() -> None:
    """Wait, for five seconds at most, until the threads that were given up have ended."""
    for _ in range(500):
        if not abandoned_threads():
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{abandoned_threads()} threads are still lost")
