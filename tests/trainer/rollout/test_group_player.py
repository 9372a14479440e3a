"""A group is played to its end if its worker is lost, even if the lost worker still writes."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.errors import PolicyFailed
from turnwise.agents.reexecution.continuation import continue_from
from turnwise.agents.reexecution.stored import load
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.group_runner import MAX_RETRIES, GroupRunner
from turnwise.agents.rollout.running_group import DROPPED
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Group, GroupState, Outcome, Status, Trajectory
from turnwise.store.operations import Ending, Write
from turnwise.store.queries import load_trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.trajectory_writer import TrajectoryWriter
from turnwise.tests.agents.players import QUICK, Respond, Stage, always, group, on_stage, oracle, site
from turnwise.tests.agents.sampled_groups import LONG, Decides, Sampler, sampled_by
from turnwise.tests.trainer.playing import InProcess
from turnwise.trainer.algorithms.rollout_control.april import OverProvision
from turnwise.trainer.algorithms.rollout_control.turn_tree import TurnTree
from turnwise.trainer.learner.samples import samples
from turnwise.trainer.rollout.group_player import play_group
from turnwise.trainer.rollout.worker_pool import WorkerLost


class LosesFirst:
    """A pool of two workers. The first counts as lost at once, but goes on playing while the second takes over."""

    def __init__(self, first: GroupRunner, second: GroupRunner, late: asyncio.Event) -> None:
        self._first, self._second, self._late = first, second, late
        self.lost_play: asyncio.Task[list[Outcome]] | None = None
        self.wrote = asyncio.Event()

    async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
        if self.lost_play is None:
            self.lost_play = asyncio.ensure_future(self._first.play(assignment))
            raise WorkerLost("no answer")
        self._late.set()
        await self.wrote.wait()
        return await self._second.play(assignment)


@pytest.mark.parametrize("ends", [True, False])
def test_late_writes_of_a_lost_worker_do_not_change_the_members_played_again(tmp_path: Path, ends: bool) -> None:
    async def scenario(stage: Stage) -> None:
        late = asyncio.Event()

        async def after_it_was_lost(writes: list[Write[Any]]) -> list[Any]:
            await late.wait()
            answers = await stage.send(writes)
            if any(one.operation == ("finish_trajectory" if ends else "append") for one in writes):
                pool.wrote.set()
            return answers

        def lost_player(owner: EnvThread, trajectory: Trajectory) -> Respond:
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
        pool: Any = LosesFirst(first, second, late)
        try:
            (outcome,) = await play_group(pool, store, of, 20.0)
            await store.close_group(of.id, GroupState.READY)
        finally:
            pool.lost_play.cancel()
            await asyncio.gather(pool.lost_play, return_exceptions=True)
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


def test_a_controller_counts_the_members_that_a_lost_worker_finished(tmp_path: Path) -> None:
    """Members 0 and 1 end on the lost worker; one more end closes the group of three, and member 3 never ends."""

    async def scenario(stage: Stage) -> None:
        began = asyncio.Event()

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(observation: str) -> str:
                if trajectory.member == 3:
                    began.set()
                    await asyncio.get_running_loop().create_future()
                if trajectory.member == 2:
                    await began.wait()
                return await oracle(owner, trajectory)(observation)

            return respond

        class Pool:
            lost = False

            async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
                if not self.lost:
                    self.lost = True
                    await runner.play(Assignment(of, assignment.members[:2]))
                    raise WorkerLost("no answer")
                return await runner.play(assignment)

        of, store, runner = group(site(), 3), await stage.begin(), stage.runner(script)
        await store.open_group(of)
        pool: Any = Pool()
        outcomes = await play_group(pool, store, of, 20.0, OverProvision(extra=1))
        await runner.close()
        assert {one.member: one.status for one in outcomes} == {
            0: Status.COMPLETED,
            1: Status.COMPLETED,
            2: Status.COMPLETED,
            3: Status.CANCELLED,
        }

    on_stage(tmp_path, scenario)


def test_a_failure_of_the_policy_on_a_lost_worker_is_not_played_again(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(observation: str) -> str:
                if trajectory.attempt == trajectory.member == 0:
                    raise PolicyFailed("no action")
                return await oracle(owner, trajectory)(observation)

            return respond

        class Pool:
            lost = False

            async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
                if not self.lost:
                    self.lost = True
                    await runner.play(Assignment(of, assignment.members[:1]))
                    raise WorkerLost("no answer")
                return await runner.play(assignment)

        of, store, runner = group(site(), 2), await stage.begin(), stage.runner(script)
        await store.open_group(of)
        pool: Any = Pool()
        outcomes = await play_group(pool, store, of, 20.0)
        await runner.close()
        ends = {one.member: (one.status, one.attempt) for one in outcomes}
        assert ends == {0: (Status.POLICY_ERROR, 0), 1: (Status.COMPLETED, MAX_RETRIES + 1)}
        assert len(outcomes) == 2

    on_stage(tmp_path, scenario)


def test_a_worker_that_takes_over_begins_at_the_stored_step_again(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.play(oracle, group(site(), name="parent"))
        start = continue_from(load(stage.database, "parent-0"), 1)

        class Pool:
            lost = False

            async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
                if not self.lost:
                    self.lost = True
                    raise WorkerLost("no answer")
                return await runner.play(assignment)

        of, store, runner = group(site()), stage.store(), stage.runner(oracle)
        await store.open_group(of)
        pool: Any = Pool()
        (outcome,) = await play_group(pool, store, of, 20.0, starts=[start])
        await runner.close()
        branch = load_trajectory(stage.database, outcome.trajectory)
        assert (branch.branched_from, branch.branched_at, branch.status) == ("parent-0", 1, Status.COMPLETED)

    on_stage(tmp_path, scenario)


async def grown_by_two(of: Group) -> Group:
    """Add two members in a second stage."""
    return replace(of, size=of.size + 2)


def test_a_second_stage_numbers_its_members_and_attempts_above_those_before(tmp_path: Path) -> None:
    """A worker is lost in each stage: first before member 1 ends, then before member 3 ends."""

    async def scenario(stage: Stage) -> None:
        calls: list[Sequence[tuple[int, int]]] = []

        class Pool:
            async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
                calls.append(assignment.members)
                if len(calls) in (1, 3):
                    await runner.play(Assignment(of, assignment.members[:1]))
                    raise WorkerLost("no answer")
                return await runner.play(assignment)

        of, store, runner = group(site(), 2), await stage.begin(), stage.runner(oracle)
        await store.open_group(of)
        pool: Any = Pool()
        outcomes = await play_group(pool, store, of, 20.0, None, grown_by_two)
        await store.close_group(of.id, GroupState.READY)
        await runner.close()
        again, later = MAX_RETRIES + 1, 2 * (MAX_RETRIES + 1)
        assert calls == [[(0, 0), (1, 0)], [(1, again)], [(2, again), (3, again)], [(3, later)]]
        assert sorted((one.member, one.attempt, one.status) for one in outcomes) == [
            (0, 0, Status.COMPLETED),
            (1, again, Status.COMPLETED),
            (2, again, Status.COMPLETED),
            (3, later, Status.COMPLETED),
        ]

    on_stage(tmp_path, scenario)


def test_a_second_stage_begins_above_a_gap_that_an_unfinished_branch_left(tmp_path: Path) -> None:
    """A lost worker branched member 0 twice after its first turn, and only member 3, the second branch, ended."""

    async def scenario(stage: Stage) -> None:
        calls: list[Sequence[tuple[int, int]]] = []
        controller = Decides(lambda _: [])

        class Pool:
            async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
                calls.append(assignment.members)
                if len(calls) > 1:
                    return await runner.play(assignment)
                for one in (played("g-0", 0), branch("g-2", 2), branch("g-3", 3)):
                    record = TrajectoryWriter(StoreClient(stage.send), one)
                    record.start()
                    if one.member == 3:
                        await record.finish(Ending(Status.COMPLETED, reward=0.5))
                raise WorkerLost("no answer")

        def played(name: str, member: int) -> Trajectory:
            return Trajectory(id=name, run="r", group="g", member=member, attempt=0)

        def branch(name: str, member: int) -> Trajectory:
            return replace(played(name, member), branched_from="g-0", branched_at=1)

        of, store, runner = group(site(), 2), await stage.begin(), stage.runner(oracle)
        await store.open_group(of)
        pool: Any = Pool()
        outcomes = await play_group(pool, store, of, 20.0, controller, grown_by_two)
        await runner.close()
        again = MAX_RETRIES + 1
        assert calls == [[(0, 0), (1, 0)], [(0, again), (1, again)], [(4, again), (5, again)]]
        assert {one.member: one.parent for one in outcomes} == {0: None, 1: None, 3: 0, 4: None, 5: None}
        for view in (controller.views[0], controller.views[-1]):
            seen = {one.member: one for one in view.members}
            assert (seen[3].parent, seen[3].branched_at, seen[3].reward) == (0, 1, 0.5)
            assert [one.children for one in view.members] == [1] + [0] * (len(seen) - 1)

    on_stage(tmp_path, scenario)


def test_a_group_without_a_worker_left_gets_no_second_stage(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        class Pool:
            async def play(self, *_: Any) -> list[Outcome]:
                raise WorkerLost("no answer")

        async def never(of: Group) -> Group:
            raise AssertionError("the group lost all of its workers")

        of, store = group(site(), 2), await stage.begin()
        await store.open_group(of)
        pool: Any = Pool()
        assert await play_group(pool, store, of, 20.0, None, never) == []

    on_stage(tmp_path, scenario)


def test_a_controller_counts_the_members_of_both_stages(tmp_path: Path) -> None:
    """Each stage opens one member more than it wants, and that member never ends."""

    async def scenario(stage: Stage) -> None:
        began = {2: asyncio.Event(), 5: asyncio.Event()}

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(observation: str) -> str:
                last = 2 if trajectory.member <= 2 else 5
                if trajectory.member == last:
                    began[last].set()
                    await asyncio.get_running_loop().create_future()
                await began[last].wait()
                return await oracle(owner, trajectory)(observation)

            return respond

        of, store, runner = group(site(), 2), await stage.begin(), stage.runner(script)
        await store.open_group(of)
        pool: Any = InProcess(runner)
        outcomes = await play_group(pool, store, of, 20.0, OverProvision(extra=1), grown_by_two)
        await store.close_group(of.id, GroupState.READY)
        await runner.close()
        statuses = {one.member: (one.status, one.error) for one in outcomes}
        dropped = [f"{DROPPED}: {size} members have ended" for size in (2, 4)]
        assert {statuses.pop(member) for member in (0, 1, 3, 4)} == {(Status.COMPLETED, "")}
        assert statuses == {2: (Status.CANCELLED, dropped[0]), 5: (Status.CANCELLED, dropped[1])}

    on_stage(tmp_path, scenario)


def test_a_second_stage_begins_after_the_branches_of_the_first(tmp_path: Path) -> None:
    chat = load_renderer(new_model(tmp_path / "model", VOCABULARY, hidden=16, layers=1, heads=2))
    client: Any = Sampler(chat.stop_tokens[0])

    async def scenario(stage: Stage) -> None:
        of, store = group(site("find"), 2, LONG), await stage.begin()
        await store.open_group(of)
        runner = GroupRunner(StoreClient(stage.send), sampled_by(client, chat), QUICK, {})
        pool: Any = InProcess(runner)
        outcomes = await play_group(pool, store, of, 20.0, TurnTree(budget=3, alpha=1.0, beta=0.0), grown_by_two)
        await runner.close()
        assert [one.member for one in outcomes] == list(range(7))
        (loaded,) = await store.load([of.id])
        began = [one.member for one in loaded.trajectories if one.branched_from is None]
        assert began == [0, 1, 5, 6], "three branches in both stages together"
        trained = sum(int(sample.mask.sum()) for one in loaded.trajectories for sample in samples(one))
        assert trained == client.sampled_tokens

    on_stage(tmp_path, scenario)
