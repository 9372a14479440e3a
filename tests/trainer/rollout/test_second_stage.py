"""A second stage adds members to a group before it closes; the group is scored once, and a kill loses no account."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import PrivateAttr
from turnwise.agents.rollout.assignment import Assignment
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.records import Group, GroupState, Outcome, ScoredGroup, Status, Trajectory
from turnwise.store import queries
from turnwise.store.queries import accounting, group_counts, load_group_heads
from turnwise.tests.agents.players import Respond, Stage, always, on_stage, oracle
from turnwise.tests.trainer.playing import InProcess, dispatcher
from turnwise.trainer.algorithms.groups import PerTurn, Shaped
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.rollout.dispatcher import Dispatcher

SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "open"}}


class Judge(RewardShaper):
    """Keeps the members and rewards of every call."""

    _calls: list[list[str]] = PrivateAttr(default_factory=list)
    _observed: list[ScoredGroup] = PrivateAttr(default_factory=list)

    def __call__(self, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
        self._calls.append([one.id for one in group.trajectories])
        return [Shaped([2 * reward for reward in turns]) for turns in rewards]

    def observe(self, scored: ScoredGroup) -> None:
        self._observed.append(scored)


def config(size: int = 4, **changes: Any) -> RunConfig:
    rollout = {"groups_per_batch": 1, "group_size": size, "max_concurrent_groups": 1, "max_staleness": 0}
    return parse_config(
        {
            "name": "r",
            "environments": [SITE],
            "rollout": rollout,
            "group_size": {"name": "dars"},
            "horizon": {"max_turns": 2},
            **changes,
        }
    )


def one_succeeds(owner: EnvThread, trajectory: Trajectory) -> Respond:
    """Member 0 plays the reference solution; the others do nothing."""
    return oracle(owner, trajectory) if trajectory.member == 0 else always("back")


async def one_group(stage: Stage, settings: RunConfig, pool: object) -> Dispatcher:
    """Open one group and play it to its end."""
    rollouts = dispatcher(stage, settings, Streams(0), pool)
    rollouts.paused = False
    assert await rollouts.fill() == 1
    rollouts.paused = True
    while rollouts._tasks:
        await asyncio.gather(*rollouts._tasks)
    return rollouts


def accounts(stage: Stage) -> dict[str, int]:
    """Return the accounts of the run, which must add up."""
    with stage.database.read() as conn:
        found = accounting(conn, "r")
    assert found["submitted"] == found["accepted"] + found["filtered"] + found["failed"] + found["running"]
    return found


def test_the_members_of_both_stages_are_one_group_that_a_judge_scores_once(tmp_path: Path) -> None:
    """1 of 4 succeeds: DARS adds ceil((2 - 4 * .375) / .375) = 2 members."""

    async def scenario(stage: Stage) -> None:
        await stage.begin()
        settings = config(rewards=[{"name": f"{__name__}:Judge"}])
        runner = stage.runner(one_succeeds)
        rollouts = await one_group(stage, settings, InProcess(runner))
        await runner.close()
        (judge,) = rollouts._algorithms.rewards
        assert isinstance(judge, Judge)
        assert judge._calls == [[f"r:0-{member}" for member in range(6)]]
        (scored,) = judge._observed
        assert scored.group.size == len(scored.group.trajectories) == 6
        assert rollouts.tally == {GroupState.READY: 1}
        assert await stage.store().read(queries.scored_from, 0) == [(0, "r:0")]
        assert accounts(stage) == {"submitted": 6, "accepted": 6, "filtered": 0, "failed": 0, "running": 0}

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize(
    ("script", "members", "state"),
    [
        pytest.param(oracle, 2, GroupState.FILTERED, id="solved"),
        pytest.param(lambda *_: always("back"), 3, GroupState.FILTERED, id="unsolved"),
    ],
)
def test_the_group_filter_rejects_a_task_that_is_always_or_never_solved(
    tmp_path: Path, script: Any, members: int, state: GroupState
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.begin()
        runner = stage.runner(script)
        rollouts = await one_group(stage, config(size=2), InProcess(runner))
        await runner.close()
        assert rollouts.tally == {state: 1}
        assert accounts(stage)["filtered"] == members

    on_stage(tmp_path, scenario)


def test_a_group_that_failed_gets_no_second_stage(tmp_path: Path) -> None:
    def fails(owner: EnvThread, trajectory: Trajectory) -> Respond:
        async def respond(_: str) -> str:
            raise TimeoutError("the engine is slow")

        return respond if trajectory.member else always("back")

    async def scenario(stage: Stage) -> None:
        await stage.begin()
        runner = stage.runner(fails)
        rollouts = await one_group(stage, config(size=2), InProcess(runner))
        await runner.close()
        assert rollouts.tally == {GroupState.FAILED: 1}
        assert {one.member for one in await stage.store().members("r:0")} == {0, 1}

    on_stage(tmp_path, scenario)


class StopsInSecondStage(InProcess):
    """Plays the first stage of a group, then waits before the second until it is cancelled."""

    second: asyncio.Event

    async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
        if assignment.finished:
            self.second.set()
            await asyncio.get_running_loop().create_future()
        return await super().play(assignment, timeout_s)


@pytest.mark.parametrize("killed", [True, False])
def test_an_end_of_the_run_between_the_stages_fails_the_group_as_a_whole(tmp_path: Path, killed: bool) -> None:
    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        runner = stage.runner(one_succeeds)
        pool = StopsInSecondStage(runner)
        pool.second = asyncio.Event()
        rollouts = dispatcher(stage, config(), Streams(0), pool)
        rollouts.paused = False
        await rollouts.fill()
        await pool.second.wait()
        if killed:  # Its tasks end without a write, as those of a killed process do.
            for task in rollouts._tasks:
                task.cancel()
            await asyncio.gather(*rollouts._tasks, return_exceptions=True)
            assert accounts(stage)["running"] == 4
        else:
            await rollouts.cancel()
        await store.rewind(None)
        with stage.database.read() as conn:
            (head,) = load_group_heads(conn, ["r:0"])
            assert group_counts(conn, "r")[GroupState.FAILED] == 1
        assert (head.state, head.size) == (GroupState.FAILED, 6)
        assert accounts(stage) == {"submitted": 4, "accepted": 0, "filtered": 0, "failed": 4, "running": 0}
        assert await store.read(queries.unscored_groups) == []

        resumed = dispatcher(stage, config(), Streams(0), InProcess(runner))
        resumed.next_group = await store.read(queries.next_group)
        resumed.paused = False
        await resumed.fill()
        resumed.paused = True
        while resumed._tasks:
            await asyncio.gather(*resumed._tasks)
        await runner.close()
        assert [one.member for one in await store.members("r:1")] == list(range(6))
        assert {one.status for one in await store.members("r:1")} <= {Status.COMPLETED, Status.TRUNCATED}
        assert accounts(stage) == {"submitted": 10, "accepted": 6, "filtered": 0, "failed": 4, "running": 0}

    on_stage(tmp_path, scenario)
