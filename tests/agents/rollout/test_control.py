"""A controller sees the running group, and its decisions end, weigh and drop members."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from turnwise.agents.errors import EngineFailed
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import LOSS_WEIGHT, Branch, Close, Decision, Drop, GroupView, Stop, Weigh
from turnwise.agents.rollout.running_group import DROPPED, RunningGroup
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import env_key, make_task
from turnwise.errors import TurnwiseError
from turnwise.records import Horizon, Status, Trajectory
from turnwise.store.queries import load_trajectory
from turnwise.tests.agents.players import Respond, Stage, always, group, on_stage, oracle, site
from turnwise.tests.agents.sampled_groups import Decides
from turnwise.tests.envs.faulty import FAULTY, HANG

SHORT = Horizon(3, 8, 64, 512)


@pytest.mark.parametrize(
    ("run", "seed", "number", "same"), [("r", 5, 7, True), ("s", 5, 7, True), ("r", 6, 7, False), ("r", 5, 8, False)]
)
def test_the_stream_of_a_group_follows_from_seed_and_number(run: str, seed: int, number: int, same: bool) -> None:
    def draw(run: str, seed: int, number: int) -> float:
        drawn: list[float] = []

        class Draws(Decides):
            def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
                drawn.append(stream.random())
                return ()

        of = group(site(), 1, SHORT, name=f"{run}:{number}")
        running = RunningGroup(Assignment(of, [(0, 0)], Draws(lambda _: ())), seed=seed)
        running.decide(running.members[0])
        return drawn[0]

    assert (draw(run, seed, number) == draw("r", 5, 7)) is same


def test_a_view_holds_the_turns_of_every_member(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda _: ())
        outcomes = await stage.play(lambda *_: always("back"), group(site(), 2, SHORT), controller=controller)
        assert [one.status for one in outcomes] == [Status.TRUNCATED] * 2
        last = controller.views[-1]
        assert [one.member for one in last.scored] == [0, 1]
        assert not last.running
        for one, outcome in zip(last.members, outcomes, strict=True):
            stored = load_trajectory(stage.database, outcome.trajectory)
            assert one.reward == pytest.approx(stored.reward)
            for turn, step in zip(one.turns, stored.steps, strict=True):
                assert (turn.observation, turn.action, turn.reward) == (step.observation, step.action, step.reward)
                assert (turn.state_key, turn.action_valid) == (step.state_key, step.action_valid)
                assert turn.logprobs == (-0.5,)
        turns = [view for view in controller.views if view.latest.running]
        assert {len(view.latest.turns) for view in turns} == {1, 2}, "the horizon of three turns ends the episode"
        assert len(turns) == 4, "one call per turn that does not end its episode"
        assert len(controller.views) == 6, "one more call per end"

    on_stage(tmp_path, scenario)


def test_without_a_controller_and_with_a_passive_one_no_view_is_built(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda _: [Close("never")], passive=True)
        (outcome,) = await stage.play(oracle, group(site()), controller=controller)
        assert outcome.status is Status.COMPLETED
        assert not controller.views

    on_stage(tmp_path, scenario)


def test_a_stopped_member_counts_with_its_weight(tmp_path: Path) -> None:
    def choose(view: GroupView) -> Sequence[Decision]:
        decisions: dict[tuple[int, int], Decision] = {(0, 1): Weigh(0, 2.0), (1, 2): Stop(1, "hopeless", 0.25)}
        found = decisions.get((view.latest.member, len(view.latest.turns)))
        return [found] if found else []

    async def scenario(stage: Stage) -> None:
        of = group(site(), 2, Horizon(5, 8, 64, 512))
        kept, stopped = await stage.play(lambda *_: always("back"), of, controller=Decides(choose))
        assert (stopped.status, stopped.turns, stopped.error) == (Status.TRUNCATED, 2, "hopeless")
        assert (kept.status, kept.turns) == (Status.TRUNCATED, 5)
        weights = [load_trajectory(stage.database, one.trajectory).extras[LOSS_WEIGHT] for one in (kept, stopped)]
        assert weights == [2.0, 0.25]

    on_stage(tmp_path, scenario)


def test_a_stop_of_another_member_takes_effect_after_its_turn(tmp_path: Path) -> None:
    def choose(view: GroupView) -> Sequence[Decision]:
        return [Stop(1, "enough")] if view.latest.member == 0 and view.latest.scored else []

    async def scenario(stage: Stage) -> None:
        ended = asyncio.Event()

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(observation: str) -> str:
                if trajectory.member == 1:
                    await ended.wait()
                    return "back"
                return await oracle(owner, trajectory)(observation)

            return respond

        def chosen(view: GroupView) -> Sequence[Decision]:
            decisions = choose(view)
            if decisions:
                ended.set()
            return decisions

        _, stopped = await stage.play(script, group(site(), 2), controller=Decides(chosen))
        assert (stopped.status, stopped.turns, stopped.error) == (Status.TRUNCATED, 1, "enough")
        assert LOSS_WEIGHT not in load_trajectory(stage.database, "g-1").extras

    on_stage(tmp_path, scenario)


def test_a_dropped_member_is_cancelled_at_once_and_not_retried(tmp_path: Path) -> None:
    def choose(view: GroupView) -> Sequence[Decision]:
        return [Drop(0, "it failed"), Drop(1, "it waits")] if view.latest.status is Status.ENGINE_ERROR else []

    async def scenario(stage: Stage) -> None:
        waits = asyncio.Event()

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            async def respond(_: str) -> str:
                if trajectory.member == 0:
                    await waits.wait()
                    raise EngineFailed("the engine is slow")
                waits.set()
                return await asyncio.get_running_loop().create_future()

            return respond

        failed, waiting = await stage.play(script, group(site(), 2), controller=Decides(choose))
        assert (failed.status, failed.attempt) == (Status.ENGINE_ERROR, 0)
        assert (waiting.status, waiting.error) == (Status.CANCELLED, f"{DROPPED}: it waits")
        stored = load_trajectory(stage.database, "g-1")
        assert (stored.status, stored.error) == (Status.CANCELLED, f"{DROPPED}: it waits")
        assert len(stage.players) == 2

    on_stage(tmp_path, scenario)


def test_a_member_may_be_dropped_after_its_own_turn(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        controller = Decides(lambda view: [Drop(view.latest.member, "one turn is enough")])
        (outcome,) = await stage.play(lambda *_: always("back"), group(site(), 1, SHORT), controller=controller)
        assert (outcome.status, outcome.turns) == (Status.CANCELLED, 1)
        assert len(controller.views) == 1, "a dropped member causes no call"

    on_stage(tmp_path, scenario)


def test_a_closed_group_keeps_its_scored_members_and_drops_those_without_a_slot(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.concurrency = {env_key(site()): 1}
        controller = Decides(lambda view: [Close("one is enough")] if view.scored else [])
        outcomes = await stage.play(oracle, group(site(), 3), controller=controller)
        assert [one.status for one in outcomes] == [Status.COMPLETED, Status.CANCELLED, Status.CANCELLED]
        assert len(stage.players) == 1

    on_stage(tmp_path, scenario)


def test_a_drop_waits_for_an_environment_that_is_being_made(tmp_path: Path) -> None:
    """Member 0 reuses an environment; that of member 1 is still being made when member 1 is dropped."""
    slow = make_task(FAULTY, 0, "train", {"fault": "hang", "where": "make"})

    def choose(view: GroupView) -> Sequence[Decision]:
        asyncio.get_running_loop().call_later(0.2, HANG.set)
        return [Drop(1, "too slow")]

    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        first, of = group(slow, 1, SHORT, "first"), group(slow, 2, SHORT)
        for one in (first, of):
            await store.open_group(one)
        runner = stage.runner(lambda *_: always("go"))
        await runner.play(Assignment.whole(first))
        HANG.clear()
        played, dropped = await runner.play(Assignment.whole(of, Decides(choose)))
        assert (played.status, dropped.status) == (Status.TRUNCATED, Status.CANCELLED)
        assert dropped.error == f"{DROPPED}: too slow"
        assert abandoned_threads() == 0
        await runner.close()

    HANG.set()
    try:
        on_stage(tmp_path, scenario)
    finally:
        HANG.set()


def test_an_error_of_a_controller_ends_the_run(tmp_path: Path) -> None:
    def fail(view: GroupView) -> Sequence[Decision]:
        raise TurnwiseError("a mistake in the controller")

    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match="a mistake in the controller"):
            await stage.play(oracle, group(site()), controller=Decides(fail))

    on_stage(tmp_path, scenario)


def test_a_cancelled_run_is_not_taken_for_a_drop(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        seen = asyncio.Event()

        def choose(view: GroupView) -> Sequence[Decision]:
            seen.set()
            return ()

        def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
            turns: list[str] = []

            async def respond(observation: str) -> str:
                turns.append(observation)
                return "back" if len(turns) == 1 else await asyncio.get_running_loop().create_future()

            return respond

        playing = asyncio.ensure_future(stage.play(script, group(site()), controller=Decides(choose)))
        await seen.wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        assert load_trajectory(stage.database, "g-0").error == "cancelled while it was running"

    on_stage(tmp_path, scenario)


def test_an_episode_cannot_branch_after_the_last_turn_of_its_horizon(tmp_path: Path) -> None:
    def choose(view: GroupView) -> Sequence[Decision]:
        return [Branch(view.latest.member, 1)] if len(view.latest.turns) == 3 and view.latest.running else []

    async def scenario(stage: Stage) -> None:
        outcomes = await stage.play(lambda *_: always("back"), group(site(), 2, SHORT), controller=Decides(choose))
        assert [one.status for one in outcomes] == [Status.TRUNCATED] * 2

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda _: [Weigh(0, float("nan"))], "raised ValueError: the weight of a member is nan"),
        (lambda _: [Stop(0, "enough", weight=-1.0)], "the weight of a member is -1.0"),
        (lambda _: [Branch(0, -3)], "a branch needs at least one child, not -3"),
        (lambda _: ["stop 0"], "decided 'stop 0', which is not a decision"),
        (lambda _: 1 / 0, "`decide` of the rollout controller `Decides` raised ZeroDivisionError"),
    ],
)
def test_a_controller_that_breaks_its_contract_is_named(
    tmp_path: Path, decide: Callable[[GroupView], Sequence[Decision]], message: str
) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TurnwiseError, match=message):
            await stage.play(lambda *_: always("back"), group(site(), 1, SHORT), controller=Decides(decide))

    on_stage(tmp_path, scenario)
