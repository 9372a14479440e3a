"""The process that writes to the store answers with the cause if it cannot open it, and may die between two calls."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import OutOfMemoryError, RayActorError
from turnwise.agents.store_actor import StoreActor, send_to
from turnwise.store import operations
from turnwise.store.database import open_database
from turnwise.store.errors import StoreError
from turnwise.store.operations import Write
from turnwise.store.queries import find_run, load_trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.tests.store.making import contents, create_run, group, trajectory, turn


def test_a_store_that_cannot_be_opened_is_the_answer_until_it_can(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    writes = [operations.request_stop.bind(run="r").within(60.0)] * 2

    async def scenario() -> None:
        writer = StoreActor(url, None)
        with pytest.raises(StoreError, match="there is no store at"):
            await writer.ping()
        answers = await writer.run(writes)
        assert [type(one) for one in answers] == [StoreError, StoreError]
        assert "there is no store at" in str(answers[0])
        create_run(open_database(url, create=True))
        assert await writer.ping()
        assert await writer.run(writes) == [None, None]
        await writer.close()

    asyncio.run(scenario())
    with open_database(url).read() as conn:
        assert find_run(conn, "r").stop_requested is True


class Lost:
    """The handle of a writer whose next calls fail, as Ray reports it, before or after the writer executed them."""

    def __init__(self, writer: StoreActor, *errors: Exception) -> None:
        self.run = self
        self._writer, self._errors = writer, list(errors)

    async def remote(self, writes: list[Write[Any]]) -> list[Any]:
        is_executed = len(self._errors) % 2 == 0
        answers = await self._writer.run(writes) if is_executed else []
        if self._errors:
            raise self._errors.pop()
        return answers


def test_a_call_of_a_writer_that_ray_lost_for_any_reason_is_repeated_and_writes_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/turnwise.db"
    database = open_database(url, create=True)
    create_run(database)

    async def scenario() -> None:
        writer = StoreActor(url, None)
        lost = Lost(writer, RayActorError(), OutOfMemoryError("Ray killed it"), OutOfMemoryError("Ray killed it"))
        await StoreClient(send_to(lost, said.append)).commit(operations.open_group.bind(group=group()))
        await writer.close()

    said: list[str] = []
    asyncio.run(scenario())
    assert said == ["the process that writes to the store died; Ray starts it again"]
    (stored,) = contents(database)["rollout_group"]
    assert stored.startswith("(1, 'g', ")
    database.close()


@pytest.mark.soak
def test_a_writer_that_dies_after_its_commit_and_before_its_answer_writes_once(
    ray: Any, run: Any, tmp_path: Path
) -> None:
    """Ray reports the death and cannot say whether the call was executed: the call is repeated by the client."""
    deaths = tmp_path / "deaths"

    class DyingWriter(StoreActor):
        """Dies at every second call, after it has committed."""

        async def run(self, writes: list[Write[Any]]) -> list[Any]:
            answers = await super().run(writes)
            with deaths.open("a") as file:
                file.write(".")
            if deaths.stat().st_size % 2:
                os._exit(1)
            return answers

    url = f"sqlite:///{tmp_path}/turnwise.db"
    database = open_database(url, create=True)
    create_run(database)
    actor = ray.remote(DyingWriter).options(num_cpus=0, max_restarts=-1).remote(url, None)
    client = StoreClient(send_to(actor))

    async def scenario() -> None:
        await client.commit(operations.open_group.bind(group=group()))
        await client.commit(operations.start_trajectory.bind(trajectory=trajectory("t")))
        for index in range(3):
            await client.commit(operations.append.bind(trajectory="t", **turn(index)))

    try:
        run(scenario())
    finally:
        ray.kill(actor)
    assert deaths.stat().st_size == 10, "each of the five calls was lost once"
    assert [one.observation for one in load_trajectory(database, "t").steps] == ["page 0", "page 1", "page 2"]
    stored = contents(database)
    assert [len(stored[name]) for name in ("rollout_group", "trajectory", "step")] == [1, 1, 3]
    database.close()
