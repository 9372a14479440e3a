"""Shared parts of the tests of the episode loop: a store, groups, and scripted players.

A scripted player replaces the engine only to inject faults.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import Controller
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.rollout.player import PlayerTurn
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, Message, Outcome, Role, Screenshots, Source, Task, Trajectory
from turnwise.store.database import Database, open_database
from turnwise.store.run_store import RunStore
from turnwise.store.writing.client import Send, StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import sqlite_store

SITE = "turnwise/TextSite-v0"
HORIZON = Horizon(max_turns=6, max_tokens_per_turn=8, max_tokens_per_episode=64, max_context=512)
QUICK = Timeouts(reset_s=5.0, step_s=1.0, turn_s=5.0, group_s=20.0)


def group(task: Task, size: int = 1, horizon: Horizon = HORIZON, name: str = "g") -> Group:
    return Group(name, "r", task, horizon, size)


def site(family: str = "open") -> Task:
    return make_task(SITE, 3, "train", {"family": family})


Respond = Callable[[str], Awaitable[str]]
Script = Callable[[EnvThread, Trajectory], Respond]


@dataclass
class Scripted:
    """Plays the results of ``respond``. Each turn adds two messages of one token: a prompt and a completion."""

    respond: Respond
    turn: int = 0
    closed: bool = False

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        text = await self.respond(observation)
        index = 2 * self.turn
        self.turn += 1
        parent = index - 1 if index else None
        prompt = Message(index, parent, Role.USER, Source.POLICY, [1], [0], [float("nan")], [-1])
        completion = Message(index + 1, index, Role.ASSISTANT, Source.POLICY, [2], [1], [-0.5], [0])
        return PlayerTurn(text, (prompt, completion), 1)

    def close(self) -> None:
        self.closed = True


def always(text: str) -> Respond:
    async def respond(_: str) -> str:
        return text

    return respond


@dataclass
class Stage:
    """Plays groups into a real store, through a ``send`` that a test may wrap."""

    database: Database
    send: Send
    players: list[Scripted] = field(default_factory=list)
    owners: list[EnvThread] = field(default_factory=list)
    player: Any = None
    """Replaces the scripted players if it is set."""
    concurrency: dict[str, int] = field(default_factory=dict)
    """Maximum number of episodes at the same time, by environment key."""
    screenshots: Screenshots = "end"

    async def play(
        self,
        script: Script,
        of: Group,
        timeouts: Timeouts = QUICK,
        controller: Controller | None = None,
    ) -> list[Outcome]:
        store = await self.begin()
        await store.open_group(of)
        runner = self.runner(script, timeouts)
        try:
            return await runner.play(Assignment.whole(of, controller))
        finally:
            await runner.close()

    def store(self) -> RunStore:
        """Return the store of run ``r``."""
        return RunStore("r", self.database, StoreClient(self.send))

    async def begin(self) -> RunStore:
        """Create run ``r`` in the store, and return the store of that run."""
        store = self.store()
        await store.create(config={}, config_hash="c", kind="train", code_version="0")
        return store

    def runner(self, script: Script, timeouts: Timeouts = QUICK, send: Send | None = None) -> GroupRunner:
        """Return a runner that writes through ``send``; by default through the stage's ``send``."""

        def player(owner: EnvThread, _: Group, trajectory: Trajectory) -> Any:
            if self.player is not None:
                return self.player
            scripted = Scripted(script(owner, trajectory))
            self.players.append(scripted)
            self.owners.append(owner)
            return scripted

        client = StoreClient(send or self.send)
        return GroupRunner(client, player, timeouts, self.concurrency, screenshots=self.screenshots)


def on_stage(tmp_path: Path, scenario: Callable[[Stage], Awaitable[Any]]) -> Any:
    """Run a scenario on a new SQLite store; its timeout is 60 s."""

    async def bounded() -> Any:
        database = open_database(sqlite_store(tmp_path))
        writer = CommitQueue(database)
        try:
            async with asyncio.timeout(60):
                return await scenario(Stage(database, writer.run))
        finally:
            writer.close()
            database.close()

    return asyncio.run(bounded())


def oracle(owner: EnvThread, _: Trajectory) -> Respond:
    """Plays the reference solution."""

    async def respond(observation: str) -> str:
        return await owner.run("oracle", lambda env: env.oracle(), 5)

    return respond


def wait_for_abandoned_threads() -> None:
    """Wait until all abandoned threads have ended; fail after five seconds."""
    for _ in range(500):
        if not abandoned_threads():
            return
        threading.Event().wait(0.01)
    pytest.fail(f"{abandoned_threads()} abandoned threads still run")
