"""Suspended episodes go to the front of the tasks, once, until they are too old."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.engine.request import Completion
from turnwise.agents.rollout.control import CONTINUES
from turnwise.agents.rollout.group_runner import GroupRunner
from turnwise.agents.rollout.progress import BranchPoint, Progress
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.envs.runner.step_result import StepResult
from turnwise.envs.tasks import make_task
from turnwise.envs.worlds.tiny.text import VOCABULARY
from turnwise.records import Group, GroupState
from turnwise.store.queries import accounting
from turnwise.store.writing.client import StoreClient
from turnwise.tests.agents.players import QUICK, SITE, Stage, group, on_stage
from turnwise.tests.agents.sampled_groups import LONG, Sampler, sampled_by
from turnwise.tests.trainer.playing import InProcess, dispatcher
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.samples import samples
from turnwise.trainer.rollout.suspended_episodes import MAX_EPISODES, SuspendedEpisodes

RESULT = StepResult("", (), "", 0.0, False, False, True, "", None, {}, {}, 0.0)


def point(trajectory: str, continues: str = "") -> BranchPoint:
    return BranchPoint(trajectory, None, None, RESULT, Progress(extras={CONTINUES: continues} if continues else {}), ())


def of(seed: int, size: int = 4, name: str = "g") -> Group:
    return group(make_task(SITE, seed, "train", {}), size, LONG, name)


def test_the_oldest_task_comes_first_and_its_episodes_are_offered_once() -> None:
    queue = SuspendedEpisodes(max_staleness=2)
    queue.add(of(1), [point("a"), point("b")], since=5)
    queue.add(of(2), [point("c")], since=4)
    assert queue.next_task(5) == of(2).task
    assert [one.point.parent for one in queue.take(of(2))] == ["c"]
    assert queue.next_task(5) == of(1).task
    assert [one.point.parent for one in queue.take(of(1, size=1))] == ["a"]
    assert queue.next_task(5) is None, "an episode without a place is given up"


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, 1),
        ({"horizon": replace(LONG, max_turns=9)}, 0),
        ({"prompt_prefix": "Think."}, 0),
    ],
)
def test_an_episode_fits_a_group_with_its_horizon_and_prompt_prefix(changed: dict[str, Any], taken: int) -> None:
    queue = SuspendedEpisodes(max_staleness=0)
    queue.add(of(1), [point("a")], since=0)
    assert len(queue.take(replace(of(1, name="h"), **changed))) == taken
    assert queue.next_task(0) is None


def test_an_episode_waits_no_longer_than_the_staleness_bound() -> None:
    queue = SuspendedEpisodes(max_staleness=1)
    queue.add(of(1), [point("a")], since=3)
    assert queue.next_task(4) == of(1).task
    assert queue.next_task(5) is None


def test_a_group_that_continued_episodes_keeps_only_these_with_their_age() -> None:
    queue = SuspendedEpisodes(max_staleness=1)
    queue.add(of(1), [point("a"), point("b")], since=3)
    taken = queue.take(of(1, name="h"))
    queue.add(of(1, name="h"), [point("h-0", "a"), point("b"), point("h-2")], since=4, continued=taken)
    assert [(one.point.parent, one.since) for one in queue.take(of(1))] == [("h-0", 3), ("b", 3)]


def test_the_number_of_episodes_is_bounded() -> None:
    queue = SuspendedEpisodes(max_staleness=9)
    for number in range(MAX_EPISODES + 2):
        queue.add(of(number), [point(str(number))], since=number)
    assert len(queue) == MAX_EPISODES
    assert queue.next_task(9) == of(2).task


SLOW = {"2", "3"}
"""Members of a group."""


class Uneven(Sampler):
    """Samples slowly for the members above 1, which are in the middle of their episodes when the others have ended.

    The others wait until those have begun.
    """

    def __init__(self, stop: int) -> None:
        super().__init__(stop)
        self.begun: dict[str, set[str]] = defaultdict(set)

    async def generate(
        self, session: str, prompt: list[int], max_tokens: int, timeout_s: float, *rest: object
    ) -> Completion:
        group, _, member = session.rpartition("-")
        self.begun[group].add(member)
        if member in SLOW:
            await asyncio.sleep(0.3)
        while not self.begun[group] >= SLOW:
            await asyncio.sleep(0.005)
        return await super().generate(session, prompt, max_tokens, timeout_s)


def recycling(recycle: bool) -> dict[str, Any]:
    return {
        "name": "r",
        "environments": [{"id": SITE, "options": {"family": "find"}}],
        "rollout": {"groups_per_batch": 3, "group_size": 2, "max_concurrent_groups": 1, "max_staleness": 0},
        "rollout_control": {"name": "april", "extra": 2, "recycle": recycle},
        "group_filters": [],
        "horizon": {"max_turns": 5, "max_tokens_per_turn": 3, "max_context": 512},
    }


@pytest.mark.parametrize("recycle", [True, False])
def test_april_continues_the_episodes_of_a_closed_group(tmp_path: Path, recycle: bool) -> None:
    """Group 0 suspends two members, group 1 continues them, and group 2 has a task of the sampler again."""
    chat = load_renderer(new_model(tmp_path / "model", VOCABULARY, hidden=16, layers=1, heads=2))
    client: Any = Uneven(chat.stop_tokens[0])

    async def play(stage: Stage) -> Sequence[Group]:
        store = await stage.begin()
        runner = GroupRunner(StoreClient(stage.send), sampled_by(client, chat), QUICK, {})
        rollouts = dispatcher(stage, parse_config(recycling(recycle)), Streams(0), InProcess(runner))
        rollouts.paused = False
        await rollouts.fill()
        while rollouts._tasks:
            await asyncio.gather(*rollouts._tasks)
        await runner.close()
        assert rollouts.tally == {GroupState.READY: 3}, "admission ends the rollout"
        with stage.database.read() as conn:
            found = accounting(conn, "r")
        assert found == {"submitted": 12, "accepted": 6, "filtered": 6, "failed": 0, "running": 0}
        return await store.load([f"r:{number}" for number in range(3)])

    async def scenario(stage: Stage) -> None:
        first, second, third = await play(stage)
        assert (first.task == second.task) is recycle
        assert third.task != second.task
        links = {one.id: one.extras[CONTINUES] for one in second.trajectories if CONTINUES in one.extras}
        assert links == ({"r:1-0": "r:0-2", "r:1-1": "r:0-3"} if recycle else {})
        sampled = {name: sum(len(tokens) for _, tokens in turns) for name, turns in client.requests.items()}
        trained = {one.id: sum(int(sample.mask.sum()) for sample in samples(one)) for one in second.trajectories}
        for name in ("r:1-0", "r:1-1"):
            assert trained[name] == sampled[name] + sampled.get(links.get(name, ""), 0)

    on_stage(tmp_path, scenario)
