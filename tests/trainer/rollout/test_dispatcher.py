"""Groups are played to their end whatever becomes of their workers; the learner waits while there is progress."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.agents.rollout.group_runner import MAX_RETRIES, GroupRunner, env_key
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.errors import TurnwiseError
from turnwise.records import Group, GroupState, Outcome, Status, Trajectory
from turnwise.store.operations import Write
from turnwise.store.queries import load_trajectory
from turnwise.store.writer import Answer
from turnwise.tests.agents.players import QUICK, Say, Script, Stage, always, group, on_stage, oracle, site
from turnwise.tests.trainer.playing import FIRST, InProcess
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.rollout.dispatcher import play_out
from turnwise.trainer.rollout.worker_pool import WorkerLost
from turnwise.trainer.run import loop
from turnwise.trainer.run.loop import Loop


class Lossy:
    """Two workers. The first counts as lost at once, but goes on playing while the second takes over."""

    def __init__(self, first: GroupRunner, second: GroupRunner, late: asyncio.Event) -> None:
        self._first, self._second, self._late = first, second, late
        self.zombie: asyncio.Task[list[Outcome]] | None = None
        self.wrote = asyncio.Event()

    async def play(self, of: Group, todo: Sequence[tuple[int, int]], deadline: float) -> list[Outcome]:
        if self.zombie is None:
            self.zombie = asyncio.ensure_future(self._first.play(of, todo))
            raise WorkerLost("no answer")
        self._late.set()
        await self.wrote.wait()
        return await self._second.play(of, todo)


@pytest.mark.parametrize("ends", [True, False])
def test_a_lost_worker_that_still_writes_changes_nothing_of_what_is_played_again(tmp_path: Path, ends: bool) -> None:
    async def scenario(stage: Stage) -> None:
        late = asyncio.Event()

        async def after_it_was_lost(writes: list[Write[Any]]) -> list[Answer]:
            await late.wait()
            answers = await stage.send(writes)
            if any(write.operation == ("finish_trajectory" if ends else "append") for write in writes):
                workers.wrote.set()
            return answers

        def lost_player(owner: EnvThread, trajectory: Trajectory) -> Say:
            turns: list[str] = []

            async def say(observation: str) -> str:
                turns.append(observation)
                if not ends and len(turns) > 1:
                    await asyncio.get_running_loop().create_future()
                return await always("click nowhere")(observation)

            return say

        of, store = group(site("find")), await stage.begin()
        await store.open_group(of)
        first, second = stage.runner(lost_player, send=after_it_was_lost), stage.runner(oracle)
        workers: Any = Lossy(first, second, late)
        try:
            (outcome,) = await play_out(workers, store, of, 20.0)
            await store.close_group(of.id, GroupState.READY)
        finally:
            workers.zombie.cancel()
            await asyncio.gather(workers.zombie, return_exceptions=True)
            await asyncio.gather(first.close(), second.close())
        assert (outcome.status, outcome.attempt) == (Status.COMPLETED, MAX_RETRIES + 1)
        again = load_trajectory(stage.database, outcome.trajectory)
        assert again.status is Status.COMPLETED
        assert len(again.steps) == outcome.turns
        assert "click nowhere" not in {step.action for step in again.steps}
        left = load_trajectory(stage.database, "g-0")
        assert left.status is (Status.TRUNCATED if ends else Status.ENV_ERROR)
        assert {step.action for step in left.steps} == {"click nowhere"}

    on_stage(tmp_path, scenario)


async def waiting(stage: Stage, config: RunConfig, workers: object) -> Loop:
    """A loop whose learner is never reached."""

    async def plays_on() -> bool:
        return False

    run: Any = SimpleNamespace(
        name="r",
        config=config,
        store=stage.store(),
        version=FIRST,
        streams=Streams(0),
        learner=None,
        cluster=SimpleNamespace(workers=workers, failure=None),
        asked_to_stop=plays_on,
        tell=lambda event: None,
    )
    return await Loop.of(run)


async def next_batch(stage: Stage, made: Loop) -> list[Group]:
    """What ``Loop.train`` waits for first."""
    await stage.begin()
    made._dispatcher.paused = False
    await made._dispatcher.fill()
    try:
        return await made._next_batch(monotonic())
    finally:
        await made._dispatcher.cancel()


def config(**changes: Any) -> RunConfig:
    environment = {"id": "turnwise/TextSite-v0", "options": {"family": "open"}}
    rollout = {"groups_per_batch": 1, "max_concurrent_groups": 1, **changes.pop("rollout", {})}
    return parse_config(
        {"name": "r", "environments": [environment], "rollout": rollout, "group_filters": [], **changes}
    )


def test_a_run_whose_groups_are_all_filtered_ends_and_names_the_filter(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        runner = stage.runner(oracle)
        alike = config(group_filters=[{"name": "zero_variance"}], rollout={"group_size": 2})
        try:
            with pytest.raises(TurnwiseError, match=r"the last 10 groups were all filtered.*all returns equal"):
                await next_batch(stage, await waiting(stage, alike, InProcess(runner)))
        finally:
            await runner.close()

    on_stage(tmp_path, scenario)


def paced(seconds: float) -> Script:
    """Does what is right, after a pause per episode."""

    def script(owner: EnvThread, trajectory: Trajectory) -> Say:
        turns: list[str] = []

        async def say(observation: str) -> str:
            if not turns:
                await asyncio.sleep(seconds)
            turns.append(observation)
            return await oracle(owner, trajectory)(observation)

        return say

    return script


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner looks often, and gives up after two group timeouts."""
    monkeypatch.setattr(loop, "MARGIN", 0.0)
    monkeypatch.setattr(loop, "NOTE_EVERY", 0.2)


@pytest.mark.usefixtures("impatient")
def test_the_learner_waits_as_long_as_episodes_end(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site()): 1}
        runner = stage.runner(paced(0.9), replace(QUICK, group_s=2.0))
        slow = config(rollout={"group_timeout_s": 2.0, "group_size": 6})
        began = monotonic()
        try:
            (batch,) = await next_batch(stage, await waiting(stage, slow, InProcess(runner)))
        finally:
            await runner.close()
        assert monotonic() - began > 2 * 2.0
        assert [one.status for one in batch.trajectories] == [Status.COMPLETED] * 6

    on_stage(tmp_path, scenario)


class Never:
    """Workers that never answer."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, deadline: float = 30.0) -> None:
        """Nothing plays."""


@pytest.mark.usefixtures("impatient")
def test_the_learner_does_not_wait_where_no_episode_starts_or_ends(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match=r"no episode of run `r` started or ended within 1 s, with 1 groups"):
            await next_batch(stage, await waiting(stage, config(rollout={"group_timeout_s": 0.5}), Never()))

    on_stage(tmp_path, scenario)
