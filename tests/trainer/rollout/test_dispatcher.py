"""A group opens with the task, size and horizon that the components of the curriculum choose."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from turnwise.agents.errors import too_long
from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, Outcome, Purpose, Status, Step, Trajectory
from turnwise.store.queries import load_group_heads
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.trainer.playing import dispatcher, run_context
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.rollout.dispatcher import Dispatcher
from turnwise.trainer.rollout.worker_pool import WorkerPool

POOL: dict[str, Any] = {"id": "turnwise/TextSite-v0", "options": {"family": "find", "pool_size": 3}}


class Never:
    """Workers whose groups never end."""

    async def play(self, *_: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    async def cancel(self, timeout_s: float = 30.0) -> None:
        """Do nothing."""


def test_episodes_without_a_first_turn_are_reported_once_per_environment(tmp_path: Path) -> None:
    reported: list[str] = []

    async def scenario(stage: Stage) -> None:
        config = parse_config({"name": "r", "environments": [POOL]})
        context = replace(run_context(stage, config, Streams(0)), report=lambda event: reported.append(str(event)))
        rollouts = Dispatcher(context, cast(WorkerPool, Never()), 0, 0)
        ends = [too_long(70, 64), "the limit on context was reached", too_long(80, 64)]
        outcomes = [Outcome("t", 0, 0, Status.TRUNCATED, 0.0, None, 0, 0, end) for end in ends]
        task = make_task(POOL["id"], 5)
        group = Group("r:0", "r", task, Horizon(3, 4, 100, 64), 3, Purpose.TRAIN)
        for of in (outcomes[1:2], outcomes, outcomes):
            rollouts._note_unbegun(group, of)

    on_stage(tmp_path, scenario)
    (note,) = reported
    assert "TextSite-v0, seed 5: the first observation has 70 tokens, `horizon.max_context` is 64 (" in note


def test_members_that_began_with_other_observations_are_reported_once_per_environment(tmp_path: Path) -> None:
    reported: list[str] = []

    async def scenario(stage: Stage) -> None:
        config = parse_config({"name": "r", "environments": [POOL]})
        context = replace(run_context(stage, config, Streams(0)), report=lambda event: reported.append(str(event)))
        rollouts = Dispatcher(context, cast(WorkerPool, Never()), 0, 0)

        def group(*hashes: str) -> Group:
            steps = [Step(0, "", one, "", 0.0, {}, False, True, False, "", None, 0.0, 0.0) for one in hashes]
            members = [Trajectory(f"t{at}", "r", "r:0", at, 0, steps=(step,)) for at, step in enumerate(steps)]
            members.append(Trajectory("t9", "r", "r:0", 9, 0))
            return Group("r:0", "r", make_task(POOL["id"], 5), Horizon(3, 4, 100, 64), 3, trajectories=members)

        for one in (group("a", "a"), group("a", "b"), group("a", "b")):
            rollouts._note_unlike(one)

    on_stage(tmp_path, scenario)
    (note,) = reported
    assert "TextSite-v0, seed 5: 3 episodes of one group began with 2 different observations" in note


def test_the_curriculum_decides_per_task(tmp_path: Path) -> None:
    config = parse_config(
        {
            "name": "r",
            "environments": [POOL],
            "rollout": {"groups_per_batch": 8, "max_concurrent_groups": 12, "group_size": 8},
            "task_sampler": {"name": "mopps"},
            "group_size": {"name": "dart"},
            "horizon": {"name": "successful_length", "max_turns": 10},
        }
    )

    async def scenario(stage: Stage) -> None:
        await stage.begin()
        algorithms = AlgorithmSet.of(config)
        rollouts = dispatcher(stage, config, Streams(0), Never(), algorithms)
        rollouts.paused = False
        assert await rollouts.fill() == 12
        names = [f"r:{number}" for number in range(12)]
        with stage.database.read() as conn:
            before = load_group_heads(conn, names)
        assert {head.task.seed for head in before} == {0, 1, 2}
        assert {(head.size, head.horizon.max_turns) for head in before} == {(8, 10)}
        for number, task in enumerate({head.task.id: head.task for head in before}.values()):
            algorithms.observe(number, scored_group([[0, 1]] * 9 + [[0]], task=task))
        await rollouts.cancel()
        rollouts = dispatcher(stage, config, Streams(0), Never(), algorithms)
        rollouts.paused, rollouts.next_group = False, 12
        await rollouts.fill()
        with stage.database.read() as conn:
            (after,) = load_group_heads(conn, ["r:12"])
        assert (after.size, after.horizon.max_turns) == (3, 3)
        await rollouts.cancel()

    on_stage(tmp_path, scenario)
