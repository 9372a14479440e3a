"""Many trajectories are re-executed at the same time, over one connection, and reported in order."""

import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from turnwise.agents.reexecution.reexecute import reexecute_many
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.tasks import make_task
from turnwise.store.errors import NotFound
from turnwise.tests.agents.players import Stage, always, group, on_stage
from turnwise.tests.agents.worlds import MEETING, SPENT, Meeting, Spent

PLACES = 3


@pytest.fixture
def barrier() -> Any:
    """Make ``Meeting`` wait for ``PLACES`` environments from now on."""

    def wait_from_now_on() -> None:
        Meeting.together = threading.Barrier(PLACES)

    yield wait_from_now_on
    Meeting.together = None


def test_as_many_are_executed_together_as_there_are_places(tmp_path: Path, barrier: Any) -> None:
    async def scenario(stage: Stage) -> None:
        size = 2 * PLACES
        await stage.play(lambda *_: always("go"), group(make_task(MEETING, 1), size=size))
        in_use, most = 0, 0

        def taken(*_: object) -> None:
            nonlocal in_use, most
            in_use += 1
            most = max(most, in_use)

        def returned(*_: object) -> None:
            nonlocal in_use
            in_use -= 1

        barrier()
        event.listen(stage.database.engine, "checkout", taken)
        event.listen(stage.database.engine, "checkin", returned)
        ids = [f"g-{member}" for member in reversed(range(size))]
        reports = [one async for one in reexecute_many(stage.database, ids, PLACES)]
        assert [one.id for one in reports] == ids
        assert all(one.matches for one in reports)
        assert most == 1, "one read at a time"

    on_stage(tmp_path, scenario)


def test_an_unknown_trajectory_ends_the_others(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.play(lambda *_: always("go"), group(make_task(MEETING, 1), size=2))
        async with aclosing(reexecute_many(stage.database, ["g-0", "g-7", "g-1"], 1)) as replayed:
            assert (await anext(replayed)).matches
            with pytest.raises(NotFound, match="g-7"):
                await anext(replayed)

    on_stage(tmp_path, scenario)


def test_a_used_environment_never_causes_a_difference(tmp_path: Path) -> None:
    """Three members that play together have an environment each; their re-executions begin in one that was used."""

    async def scenario(stage: Stage) -> None:
        await stage.play(lambda *_: always("go"), group(make_task(SPENT, 1), size=3))
        Spent.made = 0
        ids = ["g-0", "g-1", "g-2"]
        reports = [one async for one in reexecute_many(stage.database, ids, 1)]
        assert [one.message for one in reports] == ["its one step matches"] * 3
        assert Spent.made == 3

    on_stage(tmp_path, scenario)


def test_an_environment_is_used_again(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.play(lambda *_: always("go"), group(make_task(MEETING, 1), size=4))
        made = []
        event_of = EnvThread.make

        async def counted(self: EnvThread, timeout_s: float) -> None:
            made.append(self)
            await event_of(self, timeout_s)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EnvThread, "make", counted)
            reports = [one async for one in reexecute_many(stage.database, [f"g-{i}" for i in range(4)], 1)]
        assert [one.matches for one in reports] == [True] * 4
        assert len(made) == 1

    on_stage(tmp_path, scenario)
