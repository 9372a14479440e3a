"""Groups of episodes: one retry per member, one timeout per group, and endings that are always committed."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.errors import EngineFailed
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.envs.errors import EnvironmentFailed
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import env_key, make_task
from turnwise.errors import TurnwiseError
from turnwise.records import Status, Trajectory
from turnwise.store.errors import NotFound
from turnwise.store.operations import Write
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import (
    QUICK,
    Respond,
    Script,
    Stage,
    always,
    group,
    on_stage,
    oracle,
    site,
    wait_for_abandoned_threads,
)
from turnwise.tests.envs.faulty import FAULTY, HANG

pytestmark = pytest.mark.alone


def failing(attempts: int) -> Script:
    """Return a script that fails the first ``attempts`` attempts of member 0, and plays the reference solution
    otherwise."""

    def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
        if trajectory.member == 0 and trajectory.attempt < attempts:

            async def fail(_: str) -> str:
                raise EngineFailed("the engine is slow")

            return fail
        return oracle(owner, trajectory)

    return script


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_a_failed_member_is_retried_once(tmp_path: Path, attempts: int) -> None:
    async def scenario(stage: Stage) -> None:
        outcomes = await stage.play(failing(attempts), group(site(), 3))
        assert [one.member for one in outcomes] == [0, 1, 2]
        assert [one.status for one in outcomes[1:]] == [Status.COMPLETED] * 2
        last = min(attempts, 1)
        assert outcomes[0].attempt == last
        assert outcomes[0].status is (Status.ENGINE_ERROR if attempts == 2 else Status.COMPLETED)
        assert len(stage.players) == 3 + last
        if attempts:
            assert load_trajectory(stage.database, "g-0").status is Status.ENGINE_ERROR
        with pytest.raises(NotFound):
            load_trajectory(stage.database, "g-0.2")

    on_stage(tmp_path, scenario)


def test_an_environment_is_reused_unless_its_episode_failed(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        runner = stage.runner(failing(1))
        for name in ("first", "second"):
            await store.open_group(group(site(), name=name))
            await runner.play(Assignment.whole(group(site(), name=name)))
        await runner.close()
        failed, completed, reused, retried = stage.owners
        assert failed is not completed
        assert completed is reused
        assert reused is not retried

    on_stage(tmp_path, scenario)


def test_an_environment_whose_player_cannot_be_created_is_closed(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        owners: list[EnvThread] = []

        def refuse(owner: EnvThread, _: Trajectory) -> Respond:
            owners.append(owner)
            raise TurnwiseError("httpx is not installed")

        with pytest.raises(TurnwiseError, match="httpx is not installed"):
            await stage.play(refuse, group(site()))
        with pytest.raises(EnvironmentFailed, match="already closed"):
            await owners[0].step("back", 5)

    on_stage(tmp_path, scenario)


def test_an_environment_whose_start_exceeds_the_group_timeout_is_abandoned(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        hanging = make_task(FAULTY, 0, "train", {"fault": "hang", "where": "make"})
        (outcome,) = await stage.play(oracle, group(hanging), replace(QUICK, group_s=0.5))
        assert outcome.status is Status.CANCELLED
        assert abandoned_threads() == 1

    HANG.clear()
    try:
        on_stage(tmp_path, scenario)
    finally:
        HANG.set()
    wait_for_abandoned_threads()


def never(owner: EnvThread, trajectory: Trajectory) -> Respond:
    """Member 0 does not answer its second turn."""
    turns: list[str] = []

    async def wait(observation: str) -> str:
        turns.append(observation)
        if len(turns) > 1 and trajectory.member == 0:
            await asyncio.get_running_loop().create_future()
        return await oracle(owner, trajectory)(observation)

    return wait


def test_the_timeout_of_a_group_ends_a_slow_policy_as_its_failure(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        started = time.monotonic()
        late, good = await stage.play(never, group(site(), 2), replace(QUICK, group_s=1.0))
        assert time.monotonic() - started < 5
        assert good.status is Status.COMPLETED
        assert (late.status, late.turns, late.attempt) == (Status.POLICY_ERROR, 1, 0)
        assert late.error == "its group's timeout of 1 s expired while it waited for the policy's answer"
        stored = load_trajectory(stage.database, "g-0")
        assert (stored.status, len(stored.steps), stored.error) == (Status.POLICY_ERROR, 1, late.error)

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize(
    ("timeouts", "error"),
    [
        (replace(QUICK, step_s=0.2), "step did not return within 0.2 s"),
        (replace(QUICK, group_s=0.5), "its group's timeout of 0.5 s expired while the environment applied an action"),
    ],
)
def test_a_step_that_hangs_is_an_end_by_the_policy_where_the_environment_declares_it(
    tmp_path: Path, timeouts: Timeouts, error: str
) -> None:
    """It is not played again: a second attempt would raise the rate of a policy that hangs sometimes."""

    async def scenario(stage: Stage) -> None:
        hanging = make_task(FAULTY, 0, "train", {"fault": "hang", "where": "step", "charges_steps": True})
        (outcome,) = await stage.play(lambda *_: always("fault"), group(hanging), timeouts)
        assert (outcome.status, outcome.attempt, len(stage.players)) == (Status.TIMEOUT, 0, 1)
        assert error in outcome.error
        assert [step.failed for step in load_trajectory(stage.database, "g-0").steps] == [True]

    HANG.clear()
    try:
        on_stage(tmp_path, scenario)
    finally:
        HANG.set()
    wait_for_abandoned_threads()


def test_the_timeout_of_a_group_does_not_charge_the_policy_with_a_dead_engine(tmp_path: Path) -> None:
    def waiting(owner: EnvThread, trajectory: Trajectory) -> Respond:
        async def respond(_: str) -> str:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                raise asyncio.CancelledError from EngineFailed("engine 0 died and is restarting")
            return ""

        return respond

    async def scenario(stage: Stage) -> None:
        (outcome,) = await stage.play(waiting, group(site()), replace(QUICK, group_s=0.5))
        assert (outcome.status, outcome.error) == (Status.ENGINE_ERROR, "engine 0 died and is restarting")

    on_stage(tmp_path, scenario)


def slow(seconds: float) -> Script:
    """Return a script that waits ``seconds`` before its first turn, then plays the reference solution."""

    def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
        turns: list[str] = []

        async def respond(observation: str) -> str:
            if not turns:
                await asyncio.sleep(seconds)
            turns.append(observation)
            return await oracle(owner, trajectory)(observation)

        return respond

    return script


def test_the_wait_for_an_environments_slot_is_not_counted(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site()): 1}
        outcomes = await stage.play(slow(0.7), group(site(), 4), replace(QUICK, group_s=2.0))
        assert [one.status for one in outcomes] == [Status.COMPLETED] * 4

    on_stage(tmp_path, scenario)


def test_a_retry_shares_the_timeout_of_its_member(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(_: str) -> str:
                if trajectory.attempt:
                    await asyncio.get_running_loop().create_future()
                await asyncio.sleep(1.5)
                raise EngineFailed("the engine is slow")

            return respond

        started = time.monotonic()
        (outcome,) = await stage.play(script, group(site()), replace(QUICK, group_s=2.0))
        assert time.monotonic() - started < 3.0
        assert (outcome.status, outcome.attempt) == (Status.CANCELLED, 1)

    on_stage(tmp_path, scenario)


def test_a_group_holds_slots_only_while_it_plays(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site()): 1}
        started, go = asyncio.Event(), asyncio.Event()

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(observation: str) -> str:
                started.set()
                await go.wait()
                return await oracle(owner, trajectory)(observation)

            return respond

        store = await stage.begin()
        for name in ("first", "second"):
            await store.open_group(group(site(), name=name))
        runner = stage.runner(script)
        assert runner.mean_slot_s() == 0
        began = time.monotonic()
        playing = [asyncio.ensure_future(runner.play(Assignment.whole(group(site(), name="first"))))]
        await started.wait()
        playing.append(asyncio.ensure_future(runner.play(Assignment.whole(group(site(), name="second")))))
        await asyncio.sleep(0)
        assert runner.slot_held_s("first") > 0
        assert runner.slot_held_s("second") == 0
        assert 0 < (held_s := runner.mean_slot_s()) <= time.monotonic() - began
        go.set()
        await asyncio.gather(*playing)
        assert runner.slot_held_s("first") == runner.slot_held_s("second") == 0
        ended_s = runner.mean_slot_s()
        assert held_s < ended_s == runner.mean_slot_s() <= time.monotonic() - began
        await runner.close()

    on_stage(tmp_path, scenario)


def test_a_commit_that_has_started_at_the_timeout_completes(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        send = stage.send

        async def slow(writes: list[Write[Any]]) -> list[Any]:
            if any(one.operation == "finish_trajectory" for one in writes):
                await asyncio.sleep(1.5)
            return await send(writes)

        stage.send = slow
        (outcome,) = await stage.play(oracle, group(site()), replace(QUICK, group_s=1.0))
        assert (outcome.status, outcome.success, outcome.error) == (Status.COMPLETED, True, "")
        stored = load_trajectory(stage.database, "g-0")
        assert (stored.status, stored.reward) == (Status.COMPLETED, outcome.reward)

    on_stage(tmp_path, scenario)


def test_a_commit_of_an_episode_without_an_environment_completes(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        send = stage.send

        async def slow(writes: list[Write[Any]]) -> list[Any]:
            if any(one.operation == "finish_trajectory" for one in writes):
                await asyncio.sleep(1.0)
            return await send(writes)

        stage.send = slow
        broken = make_task(FAULTY, 0, "train", {"fault": "raise", "where": "make"})
        (outcome,) = await stage.play(oracle, group(broken), replace(QUICK, group_s=0.5))
        assert (outcome.status, outcome.attempt) == (Status.ENV_ERROR, 0)
        assert "the page is gone" in outcome.error
        assert load_trajectory(stage.database, "g-0").status is Status.ENV_ERROR

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("slow", [False, True])
def test_a_cancelled_group_is_recorded_and_not_retried(tmp_path: Path, slow: bool) -> None:
    async def scenario(stage: Stage) -> None:
        send, ending = stage.send, asyncio.Event()

        async def watched(writes: list[Write[Any]]) -> list[Any]:
            if slow and any(one.operation == "finish_trajectory" for one in writes):
                ending.set()
                await asyncio.sleep(0.5)
            return await send(writes)

        stage.send = watched
        playing = asyncio.ensure_future(stage.play(failing(2) if slow else never, group(site())))
        if slow:
            await ending.wait()
        else:
            await asyncio.sleep(0.5)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        stored = load_trajectory(stage.database, "g-0")
        assert stored.status is (Status.ENGINE_ERROR if slow else Status.CANCELLED)
        assert len(stage.players) == 1
        assert stage.players[0].closed

    on_stage(tmp_path, scenario)


def test_closing_after_the_timeout_is_bounded(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        hanging = make_task(FAULTY, 0, "train", {"fault": "hang"})

        def cause_fault(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(_: str) -> str:
                return "fault"

            return respond

        started = time.monotonic()
        (outcome,) = await stage.play(cause_fault, group(hanging), replace(QUICK, step_s=60.0, group_s=0.5))
        took = time.monotonic() - started
        assert outcome.status is Status.CANCELLED
        assert took < 0.5 + 1.0 + 3.0
        assert abandoned_threads() == 1

    HANG.clear()
    patch = pytest.MonkeyPatch()
    patch.setattr("turnwise.agents.rollout.group_runner.CLOSE_TIMEOUT_MAX_S", 1.0)
    try:
        on_stage(tmp_path, scenario)
    finally:
        patch.undo()
        HANG.set()
    wait_for_abandoned_threads()
