"""The learner waits for a batch while episodes start and end, and the run ends if no batch can form."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import PrivateAttr
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import env_key
from turnwise.errors import TurnwiseError
from turnwise.records import ScoredGroup, Status, Trajectory
from turnwise.tests.agents.players import QUICK, Respond, Script, Stage, on_stage, oracle, site
from turnwise.tests.envs.faulty import FAULTY
from turnwise.tests.trainer.playing import FIRST, InProcess, run_context
from turnwise.trainer.algorithms.group_filters.base import GroupFilter
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner.update import UpdateStep
from turnwise.trainer.rollout.circuit_breaker import FAILURES_TO_GIVE_UP
from turnwise.trainer.rollout.dispatcher import Dispatcher
from turnwise.trainer.run import batch_wait
from turnwise.trainer.run.batch_wait import MAX_FILTERED_BATCHES, BatchWait
from turnwise.trainer.run.state import RunState
from turnwise.trainer.telemetry.events import Event


async def next_batch(
    stage: Stage, config: RunConfig, pool: object, report: Callable[[Event], None] = lambda event: None
) -> list[ScoredGroup]:
    """Return the first batch of run ``r``, without a learner."""
    await stage.begin()
    context = replace(run_context(stage, config, Streams(0)), report=report)
    dispatcher = Dispatcher(context, cast(Any, pool), 0, 0)
    update_step = UpdateStep(context, cast(Any, None), {0: FIRST})
    cluster: Any = SimpleNamespace(engines=SimpleNamespace(failure=None))
    wait = BatchWait(context, RunState(current=FIRST), cluster, dispatcher, update_step)
    dispatcher.paused = False
    await dispatcher.fill()
    try:
        return await wait.next_batch(monotonic())
    finally:
        await dispatcher.cancel()


def config(**changes: Any) -> RunConfig:
    environment = {"id": "turnwise/TextSite-v0", "options": {"family": "open"}}
    rollout = {"groups_per_batch": 1, "max_concurrent_groups": 1, **changes.pop("rollout", {})}
    return parse_config(
        {"name": "r", "environments": [environment], "rollout": rollout, "group_filters": [], **changes}
    )


def paced(seconds: float) -> Script:
    """Return an oracle that pauses for ``seconds`` before each episode."""

    def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
        turns: list[str] = []

        async def say(observation: str) -> str:
            if not turns:
                await asyncio.sleep(seconds)
            turns.append(observation)
            return await oracle(owner, trajectory)(observation)

        return say

    return script


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is logged often, and ends after two group timeouts without progress."""
    monkeypatch.setattr(batch_wait, "BATCH_TIMEOUT_SLACK_S", 0.0)
    monkeypatch.setattr(batch_wait, "LOG_INTERVAL_S", 0.2)


@pytest.mark.usefixtures("short_timeouts")
def test_a_run_in_which_no_group_becomes_ready_in_time_ends_and_names_the_filter(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        runner = stage.runner(oracle)
        filtered = config(group_filters=[{"name": "zero_variance"}], rollout={"group_size": 2, "group_timeout_s": 1.0})
        started = monotonic()
        text = (
            r"no group of run `r` became ready within 2 s: the last \d+ groups were all filtered; since then: \d+ "
            r"filtered \(\d+ zero_variance: all returns equal, mean return \d\.\d\d\)"
        )
        try:
            with pytest.raises(TurnwiseError, match=text):
                await next_batch(stage, filtered, InProcess(runner))
        finally:
            await runner.close()
        assert monotonic() - started > 2.0

    on_stage(tmp_path, scenario)


def test_the_seconds_of_a_run_end_a_wait_for_groups_that_are_all_filtered(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        runner = stage.runner(oracle)
        filtered = config(group_filters=[{"name": "zero_variance"}], rollout={"group_size": 2}, max_seconds=1.0)
        started = monotonic()
        try:
            assert await next_batch(stage, filtered, InProcess(runner)) == []
        finally:
            await runner.close()
        assert monotonic() - started > 1.0

    on_stage(tmp_path, scenario)


def test_a_run_whose_environment_never_works_ends_with_the_last_error(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        runner = stage.runner(oracle)
        broken = {"id": FAULTY, "options": {"fault": "raise", "where": "reset"}}
        text = rf"{FAILURES_TO_GIVE_UP} consecutive groups failed; last error: .*the page is gone"
        try:
            with pytest.raises(TurnwiseError, match=f"(?s){text}"):
                await next_batch(stage, config(environments=[broken]), InProcess(runner))
        finally:
            await runner.close()

    on_stage(tmp_path, scenario)


class OneOf(GroupFilter):
    """Keeps one of ``count`` groups."""

    count: int
    _closed: int = PrivateAttr(0)

    def reject(self, scored: ScoredGroup) -> str:
        self._closed += 1
        return "" if self._closed % self.count == 0 else "not this one"


def keep_one_of(count: int, **rollout: Any) -> RunConfig:
    return config(rollout={"group_size": 2, **rollout}).model_copy(update={"group_filters": [OneOf(count=count)]})


@pytest.mark.slow
@pytest.mark.parametrize("count", [3 * MAX_FILTERED_BATCHES, pytest.param(100, marks=pytest.mark.soak)])
def test_a_run_in_which_one_of_many_groups_becomes_ready_trains(tmp_path: Path, count: int) -> None:
    async def scenario(stage: Stage) -> None:
        runner = stage.runner(oracle)
        try:
            (batch,) = await next_batch(stage, keep_one_of(count), InProcess(runner))
        finally:
            await runner.close()
        assert batch.group.id == f"r:{count - 1}"

    on_stage(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.usefixtures("short_timeouts")
def test_each_group_that_becomes_ready_extends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_wait, "MAX_FILTERED_BATCHES", 0)

    async def scenario(stage: Stage) -> None:
        runner = stage.runner(paced(0.1))
        started = monotonic()
        slow = keep_one_of(5, groups_per_batch=4, group_timeout_s=1.0)
        try:
            batch = await next_batch(stage, slow, InProcess(runner))
        finally:
            await runner.close()
        assert len(batch) == 4
        assert monotonic() - started > 2.0

    on_stage(tmp_path, scenario)


@pytest.mark.slow
@pytest.mark.usefixtures("short_timeouts")
def test_the_wait_goes_on_while_episodes_end(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site()): 1}
        runner = stage.runner(paced(0.45), replace(QUICK, group_s=1.0))
        slow = config(rollout={"group_timeout_s": 1.0, "group_size": 6})
        started = monotonic()
        try:
            (batch,) = await next_batch(stage, slow, InProcess(runner))
        finally:
            await runner.close()
        assert monotonic() - started > 2 * 1.0
        assert [one.status for one in batch.group.trajectories] == [Status.COMPLETED] * 6

    on_stage(tmp_path, scenario)


class HungPool:
    """A pool of workers that never answer."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, timeout_s: float = 30.0) -> None:
        """Do nothing: no episode is running."""


@pytest.mark.usefixtures("short_timeouts")
def test_a_wait_in_which_no_episode_starts_or_ends_fails_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reporter of a run logs each note, so the wait itself logs none."""
    caplog.set_level(logging.INFO)
    reported: list[Event] = []

    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match=r"no episode of run `r` started or ended within 1 s, with 1 groups"):
            await next_batch(stage, config(rollout={"group_timeout_s": 0.5}), HungPool(), reported.append)

    on_stage(tmp_path, scenario)
    assert "the learner waits for groups" in str(reported[0])
    assert "the learner waits for groups" not in caplog.text
