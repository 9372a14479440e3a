"""Groups are scored once, when they close, while updates go on; a resume scores the groups that are left."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from turnwise.errors import TurnwiseError
from turnwise.records import Group, GroupState
from turnwise.store import queries
from turnwise.tests.agents.players import Stage, always, group, on_stage, oracle, site
from turnwise.tests.agents.servers import Counter, serving
from turnwise.tests.trainer.playing import FIRST, InProcess, dispatcher, run_context, update_step
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.groups import PerTurn, Shaped
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.rollout.dispatcher import Dispatcher
from turnwise.trainer.rollout.scoring import Scorer
from turnwise.trainer.run.preparation import observe_again

pytestmark = pytest.mark.slow

SITE = {"id": "turnwise/TextSite-v0", "options": {"family": "find"}}
BATCH = {"groups_per_batch": 1, "group_size": 2, "max_concurrent_groups": 4, "max_staleness": 2}
JUDGE_S = 4.0


def config(**changes: Any) -> RunConfig:
    return parse_config({"name": "r", "environments": [SITE], "rollout": BATCH, **changes})


@contextmanager
def judge(delay_s: float = 0.0) -> Iterator[tuple[Counter, dict[str, Any]]]:
    """Yield a server that scores 1, 0, 1, 0 … after a delay, and the reward that calls it."""
    counter = Counter(lambda number: json.dumps({"score": (number + 1) % 2}), 1_000_000 if delay_s else 1, delay_s)
    with serving(counter) as url:
        yield counter, {"name": "llm_judge", "url": url, "model": "m", "rubric": "Was it done?", "weight": 0.5}


async def closed(stage: Stage, *names: str) -> None:
    """Play groups of two oracle episodes, which all have the same return, and close them."""
    for name in names:
        await stage.play(oracle, group(site("find"), 2, name=name))
        await stage.store().close_group(name, GroupState.SCORING)


async def drained(rollouts: Dispatcher) -> None:
    """Wait until the dispatcher has no task left."""
    while rollouts._tasks:
        await asyncio.gather(*rollouts._tasks)


def test_a_judge_receives_the_stored_observations(tmp_path: Path) -> None:
    with judge() as (counter, reward):

        async def scenario(stage: Stage) -> list[list[str]]:
            await closed(stage, "g")
            scorer = Scorer(run_context(stage, config(rewards=[reward]), Streams(0)), 0)
            assert (await scorer.score("g")).state is GroupState.READY
            members = [queries.load_trajectory(stage.database, f"g-{member}").steps for member in range(2)]
            return [[text for step in steps for text in (step.observation, step.action)] for steps in members]

        expected = on_stage(tmp_path, scenario)
    assert all(texts and all(texts[::2]) for texts in expected)
    shown = [json.loads(one["messages"][1]["content"])["conversation"] for one in counter.bodies]
    assert [[message["content"] for message in messages] for messages in shown] == expected


def test_a_slow_judge_delays_no_update_and_its_verdicts_are_stored(tmp_path: Path) -> None:
    """All members succeed, so only the judge can tell them apart; the default filter rejects equal returns."""
    with judge(JUDGE_S) as (counter, reward):
        settings = config(rewards=[{**reward, "max_concurrent_requests": 2}])

        async def scenario(stage: Stage) -> None:
            store = await stage.begin()
            await store.add_version(0, None)
            runner = stage.runner(oracle)
            rollouts = dispatcher(stage, settings, Streams(0), InProcess(runner))
            step = update_step(stage, settings, Streams(0), tmp_path / "model")
            rollouts.paused = False
            assert await rollouts.fill() == 3
            started = time.monotonic()
            while not (groups := await step.lease()):
                await asyncio.wait_for(rollouts.closed.wait(), 20)
                rollouts.closed.clear()
            assert time.monotonic() - started >= JUDGE_S
            while not counter.in_flight:  # the judge reads the next group
                await asyncio.sleep(0.01)
            started = time.monotonic()
            result = await step.update(groups, FIRST, 0.0, 0.0)
            assert time.monotonic() - started < JUDGE_S / 2
            assert counter.in_flight
            assert result is not None
            assert result.metrics["unscored_members"] == 0
            (scored,) = groups
            assert sorted(turns[-1] for turns in scored.rewards) == [1.0, 1.5]
            with stage.database.read() as conn:
                stored = queries.rewards_of(conn, [one.id for one in scored.group.trajectories])
            assert [stored[one.id].rewards for one in scored.group.trajectories] == list(scored.rewards)
            assert sorted(one.verdicts[0]["score"] for one in stored.values()) == [0.0, 1.0]
            assert rollouts.tally[GroupState.FILTERED] == 0
            await rollouts.cancel()
            await runner.close()

        on_stage(tmp_path, scenario)


def test_groups_of_equal_returns_are_filtered_without_a_judge(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await closed(stage, "g")
        scorer = Scorer(run_context(stage, config(), Streams(0)), 0)
        scoring = await scorer.score("g")
        assert (scoring.state, scoring.reason) == (GroupState.FILTERED, "zero_variance: all returns equal")

    on_stage(tmp_path, scenario)


def test_groups_that_a_killed_process_closed_are_scored_once(tmp_path: Path) -> None:
    """A group whose scores were committed just before the kill is not scored again."""
    with judge() as (counter, reward):
        settings = config(rewards=[reward])

        async def scenario(stage: Stage) -> None:
            await closed(stage, "a", "b")
            await Scorer(run_context(stage, settings, Streams(0)), 0).score("a")
            store = stage.store()
            rollouts = Dispatcher(
                run_context(stage, settings, Streams(0)), cast(Any, None), 2, await store.read(queries.next_scoring)
            )
            await rollouts.resume()
            await drained(rollouts)
            assert counter.arrived == 4
            assert await store.read(queries.scored_from, 0) == [(0, "a"), (1, "b")]
            assert await store.read(queries.unscored_groups) == []
            with pytest.raises(TurnwiseError, match="not to be scored"):
                await Scorer(run_context(stage, settings, Streams(0)), 2).score("b")

        on_stage(tmp_path, scenario)


def test_a_stop_leaves_a_group_that_waits_for_its_judge_unscored(tmp_path: Path) -> None:
    with judge(JUDGE_S) as (counter, reward):
        settings = config(rewards=[reward])

        async def scenario(stage: Stage) -> None:
            await closed(stage, "a")
            rollouts = dispatcher(stage, settings, Streams(0), InProcess(stage.runner(oracle)))
            await rollouts.resume()
            while not counter.in_flight:
                await asyncio.sleep(0.01)
            started = time.monotonic()
            await rollouts.cancel()
            assert time.monotonic() - started < JUDGE_S / 2
            assert await stage.store().read(queries.unscored_groups) == ["a"]

        on_stage(tmp_path, scenario)


def test_components_observe_after_a_resume_what_the_checkpoint_lacks(tmp_path: Path) -> None:
    chosen = config(task_sampler={"name": "learnability", "ema_rate": 0.3}, rewards=[{"name": "turn_penalty"}])

    async def scenario(stage: Stage) -> None:
        names = ["a", "b", "c", "d"]
        await closed(stage, *names[:2])
        await stage.play(lambda owner, one: always("click nowhere"), group(site("find"), 2, name="c"))
        await stage.store().close_group("c", GroupState.SCORING)
        await closed(stage, "d")
        whole, resumed = AlgorithmSet.of(chosen), AlgorithmSet.of(chosen)
        scorer = Scorer(run_context(stage, chosen, Streams(0), whole), 0)
        for name in names[:2]:
            await scorer.score(name)
        checkpoint = whole.component_states(), whole.observed, whole.drawn
        assert checkpoint[1] == 2
        for name in names[2:]:
            await scorer.score(name)
        assert whole.component_states() != checkpoint[0]
        resumed.load_component_states(*checkpoint)
        await observe_again(run_context(stage, chosen, Streams(0), resumed))
        assert resumed.component_states() == whole.component_states()
        assert resumed.observed == whole.observed == 4

    on_stage(tmp_path, scenario)


class Broken(RewardShaper):
    """Returns rewards of the wrong shape, or hangs."""

    hangs_s: float = 0.0

    def __call__(self, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
        time.sleep(self.hangs_s)
        return [Shaped([0.0]) for _ in rewards]


def test_a_shaper_that_hangs_fails_the_group_after_the_timeout(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await closed(stage, "g")
        rollout = {**BATCH, "group_timeout_s": 0.2}
        settings = config(rewards=[{"name": f"{__name__}:Broken", "hangs_s": 1.0}], rollout=rollout)
        scoring = await Scorer(run_context(stage, settings, Streams(0)), 0).score("g")
        state, reason = scoring.state, scoring.reason
        assert (state, "`rollout.group_timeout_s` = 0.2 s" in reason) == (GroupState.FAILED, True)
        (scored,) = await stage.store().load_scored(["g"])
        assert (list(scored.group.trajectories), scored.unscored) == ([], 2)

    on_stage(tmp_path, scenario)


def test_rewards_of_another_shape_end_the_run_with_the_name_of_the_shaper(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await closed(stage, "g")
        settings = config(rewards=[{"name": f"{__name__}:Broken"}])
        with pytest.raises(TurnwiseError, match=r"test_scorer:Broken` returned 1 rewards for trajectory g-0"):
            await Scorer(run_context(stage, settings, Streams(0)), 0).score("g")
        assert await stage.store().read(queries.unscored_groups) == ["g"]

    on_stage(tmp_path, scenario)
