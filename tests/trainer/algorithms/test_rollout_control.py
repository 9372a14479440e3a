"""The rollout controllers, on real episodes and through the dispatcher to the batch."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError
from turnwise.agents.errors import EngineFailed
from turnwise.agents.rollout.assignment import Assignment
from turnwise.agents.rollout.control import Branch, Decision, Drop, GroupView, MemberView, Stop, TurnView
from turnwise.agents.rollout.running_group import DROPPED
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Group, GroupState, Outcome, PolicyVersion, Status, Trajectory
from turnwise.store.queries import accounting, failed_for_good, failure_counts
from turnwise.tests.agents.players import Respond, Script, Stage, group, on_stage, oracle, site
from turnwise.tests.agents.sampled_groups import LONG, played
from turnwise.tests.trainer.playing import InProcess
from turnwise.trainer.algorithms.advantages.base import AdvantageEstimator
from turnwise.trainer.algorithms.losses.base import PolicyLoss
from turnwise.trainer.algorithms.rollout_control.april import OverProvision
from turnwise.trainer.algorithms.rollout_control.arrol import BalancedPruning
from turnwise.trainer.algorithms.rollout_control.base import RolloutController
from turnwise.trainer.algorithms.rollout_control.turn_tree import TurnTree
from turnwise.trainer.learner.batch import Batch, assemble
from turnwise.trainer.rollout.group_player import play_group
from turnwise.trainer.rollout.scoring import score


def heavy_tailed() -> Script:
    """Members 1 and 4 begin and never end. The others then play the reference solution, member 0 with an error at
    first."""
    waiting = asyncio.Barrier(5)

    def script(owner: EnvThread, trajectory: Trajectory) -> Respond:
        turns: list[str] = []

        async def respond(observation: str) -> str:
            turns.append(observation)
            if len(turns) == 1 and not trajectory.attempt:
                await waiting.wait()
            if trajectory.member in (1, 4):
                await asyncio.get_running_loop().create_future()
            if trajectory.member == 0 and not trajectory.attempt:
                raise EngineFailed("the engine is slow")
            return await oracle(owner, trajectory)(observation)

        return respond

    return script


async def closed(stage: Stage, of: Group, controller: RolloutController) -> list[Outcome]:
    """Play a group as the dispatcher does, score it, and close it as ready."""
    store = await stage.begin()
    await store.open_group(of)
    runner = stage.runner(heavy_tailed())
    try:
        outcomes = list(await play_group(InProcess(runner), store, of, 20.0, controller))  # type: ignore[arg-type]
    finally:
        await runner.close()
    await store.close_group(of.id, GroupState.SCORING)
    await store.score_group(of.id, 0, GroupState.READY, "", ())
    return outcomes


async def batch_of(stage: Stage, of: Group) -> Batch:
    """Return the batch of one group, with the default components."""
    (loaded,) = await stage.store().load([of.id])
    return assemble(
        [score(loaded, (), ()).scored],
        {0: PolicyVersion("r", 0, None, 0)},
        0,
        1,
        advantage=AdvantageEstimator.build_default(),
        filters=(),
        loss=PolicyLoss.build_default(),
        streams=(),
    )


def test_april_closes_a_group_of_heavy_tailed_episodes(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        of = group(site(), 3)
        outcomes = await closed(stage, of, OverProvision(extra=2))
        assert sorted(one.member for one in outcomes) == [0, 1, 2, 3, 4]
        ended = {one.member for one in outcomes if one.status is Status.COMPLETED}
        dropped = [one for one in outcomes if one.status is Status.CANCELLED]
        assert ended == {0, 2, 3}
        assert [one.member for one in dropped] == [1, 4]
        assert {one.error for one in dropped} == {f"{DROPPED}: 3 members have ended"}

        batch = await batch_of(stage, of)
        assert {one.sample.trajectory for one in batch.samples} == {"g-0.1", "g-2", "g-3"}
        assert all(set(one.weights.tolist()) == {0.0, 1.0} for one in batch.samples), "they keep their weights"
        assert batch.groups == [of.id]
        with stage.database.read() as conn:
            assert failure_counts(conn, "r") == {"engine_error": 1}
            assert failed_for_good(conn, "r") == []
            assert accounting(conn, "r") == {"submitted": 6, "accepted": 3, "filtered": 2, "failed": 1, "running": 0}

    on_stage(tmp_path, scenario)


def test_a_stopped_member_is_trained_on_with_its_weight(tmp_path: Path) -> None:
    class StopFirst(RolloutController):
        def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
            return [Stop(0, "hopeless", 0.25)] if view.latest.member == 0 else []

    async def scenario(stage: Stage) -> None:
        of = group(site(), 2)
        store = await stage.begin()
        await store.open_group(of)
        runner = stage.runner(oracle)
        outcomes = await runner.play(Assignment.whole(of, StopFirst()))
        await runner.close()
        assert [(one.status, one.turns) for one in outcomes] == [(Status.TRUNCATED, 1), (Status.COMPLETED, 2)]
        batch = await batch_of(stage, of)
        assert {one.sample.trajectory: float(one.weights.max()) for one in batch.samples} == {"g-0": 0.25, "g-1": 1.0}

    on_stage(tmp_path, scenario)


@pytest.mark.parametrize("extra", [0, -1])
def test_april_needs_an_extra_member(extra: int) -> None:
    with pytest.raises(ValidationError):
        RolloutController.build({"name": "april", "extra": extra})


def view_of(rewards: Sequence[float], turns: Sequence[int], ended: Sequence[int] = (), latest: int = -1) -> GroupView:
    """Return a view of a group by the rewards and turns of its members."""
    turn = TurnView("", "go", 0.0, (), "", True)
    members = [
        MemberView(index, 0, Status.COMPLETED if index in ended else Status.RUNNING, reward, (turn,) * count)
        for index, (reward, count) in enumerate(zip(rewards, turns, strict=True))
    ]
    return GroupView(group(site(), len(members)), members[latest], members)


@pytest.mark.parametrize(
    ("view", "dropped"),
    [
        (view_of([0.1, 0.5, 0.3, 0.2, 0.4, 0.0], [2, 2, 2, 2, 2, 2]), [2, 3]),
        (view_of([0.1, 0.5, 0.3, 0.2, 0.4, 0.0], [2, 2, 2, 1, 2, 2]), []),
        (view_of([0.1, 0.5, 0.3, 0.2, 0.4, 0.0], [2, 2, 1, 3, 2, 2], ended=[2]), [3]),
        (view_of([0.1, 0.5, 0.3, 0.2, 0.4, 0.0], [2, 2, 2, 2, 2, 3]), []),
        (view_of([0.1, 0.5, 0.3, 0.2, 0.4, 0.0], [2, 2, 2, 2, 2, 1], ended=[5]), [2, 3]),
        (view_of([0.1, 0.5, 0.3, 0.2], [2, 2, 2, 2]), []),
        (view_of([0.0] * 6, [2] * 6), [2, 3]),
    ],
    ids=["all arrived", "one is behind", "an ended one stays", "too late", "the last one ended", "few", "ties"],
)
def test_arrol_keeps_both_ends_of_the_ranking(view: GroupView, dropped: list[int]) -> None:
    controller = BalancedPruning(keep=4, after_turns=2, target=0.5)
    decisions = controller.decide(view, Random(0))
    assert sorted(one.member for one in decisions if isinstance(one, Drop)) == dropped
    assert len(decisions) == len(dropped)


def uncertain(*logprobs: float, children: int = 0, running: bool = True) -> GroupView:
    """Return a view in which member 0 has taken one turn per entry of ``logprobs``, and has ``children``."""
    turns = [TurnView("", "go", 0.0, (logprob, logprob), "", True) for logprob in logprobs]
    status = Status.RUNNING if running else Status.COMPLETED
    member = MemberView(0, 0, status, 0.0, turns, children=children)
    return GroupView(group(site()), member, [member])


@pytest.mark.parametrize(
    ("view", "probability"),
    [
        (uncertain(-0.5), 0.2),
        (uncertain(-0.5, -1.5), 0.6),
        (uncertain(-0.5, -9.0, -0.5), 0.2),
        (uncertain(-1.5, -0.5), 0.0),
        (uncertain(-0.5, -9.0), 1.0),
        (uncertain(-0.5, -9.0, children=2), 1.0),
        (uncertain(-0.5, -9.0, children=3), 0.0),
        (uncertain(-0.5, -9.0, running=False), 0.0),
    ],
)
def test_a_turn_tree_branches_with_the_probability_of_its_uncertainty(view: GroupView, probability: float) -> None:
    controller = TurnTree(budget=3, alpha=0.2, beta=0.4)
    stream = Random(0)
    draws = [controller.decide(view, stream) for _ in range(2000)]
    assert all(one in ([], [Branch(0, 1)]) for one in draws)
    assert sum(map(bool, draws)) / len(draws) == pytest.approx(probability, abs=0.04 if 0 < probability < 1 else 0)


def test_the_tokens_of_a_turn_tree_enter_the_batch_once(tmp_path: Path) -> None:
    chat = load_renderer(new_model(tmp_path / "model", VOCABULARY, hidden=16, layers=1, heads=2))

    async def scenario(stage: Stage) -> None:
        of = group(site("find"), 2, LONG)
        outcomes, client, _ = await played(stage, chat, of, TurnTree(budget=3, alpha=0.7, beta=0.0))
        assert len(outcomes) == 5
        batch = await batch_of(stage, of)
        assert sum(float(one.weights.sum()) for one in batch.samples) == client.sampled_tokens
        (loaded,) = await stage.store().load([of.id])
        parents = {one.id: one.branched_from for one in loaded.trajectories}
        assert sum(parent is not None for parent in parents.values()) == 3
        assert {parent for parent in parents.values() if parent} <= parents.keys()

    on_stage(tmp_path, scenario)


def test_the_default_plays_every_member_to_its_end() -> None:
    controller = RolloutController.build_default()
    assert controller.passive
    assert controller.members(4) == 4
