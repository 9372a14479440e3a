"""However often a run is killed and resumed, each draw of its task sampler is trained on once.

`make soak` tries more histories.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import PrivateAttr
from sqlalchemy import select
from turnwise.envs.tasks import make_task
from turnwise.records import GroupState, Task
from turnwise.store import queries
from turnwise.store.database import Database
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.schema import rollout_group, task
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.store.making import call, items, play, trajectory
from turnwise.tests.trainer.playing import run_context
from turnwise.tests.trainer.rollout.test_dispatcher import Never
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.algorithms.task_samplers.base import TaskSampler, WeightedEnvironment
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.rollout.dispatcher import Dispatcher
from turnwise.trainer.rollout.worker_pool import WorkerPool

ENV = "turnwise/TextSite-v0"
BATCH = 2


class InOrder(TaskSampler):
    """Returns the tasks 0, 1, 2 and so on: its state changes with each proposal."""

    _next: int = PrivateAttr(0)

    def propose(self, environments: Sequence[WeightedEnvironment], rng: Random) -> Task:
        self._next += 1
        return make_task(environments[0].id, self._next - 1, "train", {"family": "find"})

    def state_dict(self) -> dict[str, Any]:
        return {"next": self._next}

    def load_state_dict(self, state: Any) -> None:
        self._next = state.get("next", 0)


def config_with(sampler: str) -> RunConfig:
    return parse_config(
        {
            "name": "r",
            "environments": [{"id": ENV, "options": {"family": "find"}}],
            "rollout": {
                "groups_per_batch": BATCH,
                "max_concurrent_groups": 3,
                "max_staleness": 2,
                "group_size": 2,
            },
            "task_sampler": {"name": sampler},
        }
    )


SAMPLERS = ("mixture", f"{__name__}:InOrder")


class Life:
    """The rollout side of a run with what a checkpoint holds, from one process to the next."""

    def __init__(self, stage: Stage, sampler: str) -> None:
        self._stage = stage
        self.database: Database = stage.database
        self.version, self._update = 0, 0
        self._sampler = sampler
        self.config = config_with(sampler)
        self.algorithms = AlgorithmSet.of(self.config)
        call(self.database, "add_version", run="r", update=0, parent=None)
        self._save()

    def _save(self) -> None:
        self._saved = (
            self.algorithms.component_states(),
            self.algorithms.observed,
            self.algorithms.drawn,
            self.version,
            self._update,
        )

    async def start(self) -> None:
        context = run_context(self._stage, self.config, Streams(0), self.algorithms)
        numbers = await context.store.read(queries.next_group), await context.store.read(queries.next_scoring)
        self.dispatcher = Dispatcher(context, cast(WorkerPool, Never()), *numbers)
        self.dispatcher.paused = False
        await self.dispatcher.resume()

    async def end(self) -> None:
        """End as a killed process does: nothing more is written."""
        tasks = list(self.dispatcher._tasks)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def do(self, what: str) -> None:
        await getattr(self, f"_{what}")()
        self.check()

    async def _open(self) -> None:
        await self.dispatcher.fill()

    async def _play(self) -> None:
        """Finish the oldest open group: ready, or at times filtered."""
        opened = self._in_state(GroupState.OPEN)
        if not opened:
            return
        name, draw = opened[0]
        for member in range(2):
            play(self.database, f"{name}-{member}", name, member, turns=1, version=self.version)
        call(self.database, "close_group", group=name, state=GroupState.SCORING)
        number = await self.dispatcher._store.read(queries.next_scoring)
        state = GroupState.FILTERED if draw % 7 == 5 else GroupState.READY
        call(self.database, "score_group", group=name, number=number, state=state, reason="")

    async def _begin(self) -> None:
        """Begin an episode of the oldest open group, which a kill interrupts."""
        for name, _ in self._in_state(GroupState.OPEN)[:1]:
            call(self.database, "start_trajectory", trajectory=trajectory(f"{name}-9", name, 9))

    async def _train(self) -> None:
        leased = call(self.database, "lease_groups", run="r", owner="learner", count=BATCH, timeout_s=60)
        if leased:
            self._update += 1
            self.version = call(
                self.database,
                "acknowledge",
                run="r",
                owner="learner",
                groups=leased,
                update=self._update,
                parent=self.version,
                items=items(leased),
                metrics={},
            )

    async def _lease(self) -> None:
        call(self.database, "lease_groups", run="r", owner="learner", count=BATCH, timeout_s=60)

    async def _checkpoint(self) -> None:
        self._save()

    async def _kill(self) -> None:
        await self.end()
        components, observed, drawn, self.version, self._update = self._saved
        call(self.database, "rewind", run="r", version=self.version)
        self.algorithms = AlgorithmSet.of(self.config)
        self.algorithms.load_component_states(components, observed, drawn)
        await self.start()

    def _in_state(self, *states: GroupState) -> list[tuple[str, int]]:
        which = select(rollout_group.c.id, rollout_group.c.draw).where(rollout_group.c.state.in_(states))
        with self.database.read() as conn:
            return [(row.id, row.draw) for row in conn.execute(which.order_by(rollout_group.c.no))]

    def check(self) -> None:
        """Every draw has one surviving group or waits to be played again, and the task that belongs to it."""
        columns = select(rollout_group.c.id, rollout_group.c.draw, task.c.seed).join(task)
        with self.database.read() as conn:
            lost = {one.draw for one in queries.lost_draws(conn, "r")}
            rows = conn.execute(columns).all()
            drawn = queries.next_draw(conn, "r")
        assert lost >= {one.draw for one in self.dispatcher._lost}
        assert {row.draw for row in rows} == set(range(drawn))
        seeds = {row.draw: {other.seed for other in rows if other.draw == row.draw} for row in rows}
        assert all(len(of_draw) == 1 for of_draw in seeds.values()), "another task for the same draw"
        assert len({seed for (seed,) in seeds.values()}) == drawn, "a task was drawn twice"
        if self._sampler != "mixture":
            assert all(of_draw == {draw} for draw, of_draw in seeds.items())


ACTIONS = st.lists(
    st.sampled_from(["open", "play", "play", "begin", "train", "lease", "checkpoint", "kill"]), min_size=1, max_size=30
)


def surviving(database: Database) -> list[int]:
    """Return the draws of the groups that are trained on or were filtered."""
    states = (GroupState.CONSUMED, GroupState.READY, GroupState.LEASED, GroupState.FILTERED)
    which = select(rollout_group.c.draw).where(rollout_group.c.state.in_(states), ~rollout_group.c.abandoned)
    with database.read() as conn:
        return sorted(conn.execute(which).scalars())


@pytest.mark.parametrize("examples", [3, pytest.param(30, marks=pytest.mark.soak)])
def test_any_history_of_kills_trains_on_each_draw_once(examples: int) -> None:
    histories = given(actions=ACTIONS, sampler=st.sampled_from(SAMPLERS))
    settings(max_examples=examples, deadline=None)(histories(check_history))()


def check_history(actions: list[str], sampler: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.begin()
        life = Life(stage, sampler)
        await life.start()
        for what in [*actions, "kill"]:
            await life.do(what)
        for _ in range(12):
            for what in ("open", "play", "train", "checkpoint"):
                await life.do(what)
        while life._in_state(GroupState.OPEN):
            await life.do("play")
        await life.end()
        with stage.database.read() as conn:
            drawn = queries.next_draw(conn, "r")
        assert list(check_store(stage.database)) == []
        assert surviving(stage.database) == list(range(drawn))

    with TemporaryDirectory() as folder:
        on_stage(Path(folder), scenario)


def test_a_group_that_a_resume_gave_up_is_played_again_with_its_task_and_prefix(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        life = Life(stage, "mixture")
        await life.start()
        await life.do("open")
        with stage.database.read() as conn:
            before = queries.load_group_heads(conn, ["r:0", "r:1", "r:2"])
        await life.do("play")
        await life.do("kill")
        assert [one.id for one in await store.read(queries.lost_draws)] == ["r:1", "r:2"]
        await life.do("open")
        with stage.database.read() as conn:
            after = queries.load_group_heads(conn, ["r:3", "r:4", "r:5"])
        assert [one.draw for one in after] == [1, 2, 3]
        assert [replace(one, id="", draw=0) for one in after[:2]] == [
            replace(one, id="", draw=0, state=GroupState.OPEN) for one in before[1:]
        ]
        assert await store.read(queries.lost_draws) == []
        await life.end()

    on_stage(tmp_path, scenario)


def test_a_stopped_run_plays_the_groups_again_that_its_end_gave_up(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        store = await stage.begin()
        life = Life(stage, "mixture")
        await life.start()
        await life.do("open")
        await life.dispatcher.cancel()
        assert [one.draw for one in await store.read(queries.lost_draws)] == [0, 1, 2]

    on_stage(tmp_path, scenario)
