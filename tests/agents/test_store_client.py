"""No write of a trajectory is lost unseen: its later ones fail with it, and nobody else's do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.store_client import Answer, Journal, NotStored, Operation
from turnwise.records import Status
from turnwise.store.errors import StoreFull
from turnwise.store.queries.lists import load_trajectory
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.store import making


class Losing:
    """Sends on, but one append of trajectory ``of`` fails with ``error``."""

    def __init__(self, stage: Stage, of: str, error: Exception) -> None:
        self._stage, self._of, self._error = stage, of, error

    async def __call__(self, operations: list[Operation]) -> list[Answer]:
        def lost(one: Operation) -> bool:
            return one[0] == "append" and one[1]["trajectory"] == self._of and one[1]["steps"][0].index == 0

        answers = iter(await self._stage.send([one for one in operations if not lost(one)]))
        return [(False, self._error) if lost(one) else next(answers) for one in operations]


async def begin(stage: Stage, error: Exception) -> Journal:
    journal = Journal(Losing(stage, "a", error))
    await journal.commit("create_run", run="r", config={}, config_hash="c", kind="train", code_version="0")
    await journal.commit("open_group", group=making.group())
    journal.put("start_trajectory", trajectory=making.trajectory("a"))
    journal.put("start_trajectory", trajectory=making.trajectory("b", member=1))
    await journal.flush()
    return journal


def ending(name: str, **counted: int) -> dict[str, Any]:
    return {"trajectory": name, "status": Status.COMPLETED, **counted}


@pytest.mark.parametrize("together", [True, False])
def test_a_lost_append_fails_the_ending(tmp_path: Path, together: bool) -> None:
    async def scenario(stage: Stage) -> None:
        journal = await begin(stage, StoreFull("no room on the disk"))
        for name in "ab":
            for index in range(2):
                journal.put("append", trajectory=name, **making.turn(index))
                if not together:
                    await journal.flush()
        with pytest.raises(StoreFull, match="no room on the disk"):
            await journal.commit("finish_trajectory", **ending("a", n_steps=2, n_messages=4))
        with pytest.raises(StoreFull):
            journal.check("a")
        await journal.commit("finish_trajectory", **ending("b", n_steps=2, n_messages=4))
        journal.check("b")
        assert load_trajectory(stage.database, "a").status is Status.RUNNING
        assert len(load_trajectory(stage.database, "b").steps) == 2

    on_stage(tmp_path, scenario)


def test_what_no_person_could_read_is_told_as_ours(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        journal = await begin(stage, ValueError("the reward is odd"))
        journal.put("append", trajectory="a", **making.turn(0))
        with pytest.raises(NotStored, match="append of trajectory a failed: ValueError: the reward is odd"):
            await journal.commit("finish_trajectory", **ending("a"))

    on_stage(tmp_path, scenario)


def test_a_store_that_cannot_be_reached_fails_all_that_was_sent() -> None:
    async def away(_: list[Operation]) -> list[Answer]:
        raise ConnectionError("gone")

    async def scenario() -> None:
        journal = Journal(away)
        journal.put("append", trajectory="a", steps=[], messages=[])
        await journal.flush()
        with pytest.raises(NotStored, match="ConnectionError: gone"):
            await journal.commit("finish_trajectory", **ending("a"))
        with pytest.raises(ConnectionError):
            await journal.commit("close_group", group="g")

    asyncio.run(scenario())
