"""A lost write fails every later write of its trajectory, and no write of another."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.records import GroupState, Status
from turnwise.store import operations
from turnwise.store.content.blobs import INLINE_BYTES, BlobStore, NewBlob, digest
from turnwise.store.content.rows import STEP, Rows, rows_of
from turnwise.store.errors import NotStored, StoreFull, StoreUnavailable
from turnwise.store.operations import Write
from turnwise.store.queries import load_trajectory
from turnwise.store.writing.client import StoreClient, size_of
from turnwise.store.writing.trajectory_writer import TrajectoryWriter
from turnwise.tests.agents.players import Stage, on_stage
from turnwise.tests.store import making


class Losing:
    """Forward writes, except that one append of trajectory ``of`` fails with ``error``."""

    def __init__(self, stage: Stage, of: str, error: Exception) -> None:
        self._stage, self._of, self._error = stage, of, error

    async def __call__(self, writes: list[Write[Any]]) -> list[Any]:
        def lost(one: Write[Any]) -> bool:
            to_it = one.operation == "append" and one.record.trajectory == self._of
            return to_it and any(row[STEP.index("idx")] == 0 for row in one.record.rows.steps)

        answers = iter(await self._stage.send([one for one in writes if not lost(one)]))
        return [self._error if lost(one) else next(answers) for one in writes]


def illustrated() -> Rows:
    """Return the rows of a turn with an image."""
    [step], messages = making.records(0)
    return rows_of([replace(step, images=(digest(b"picture"),))], messages, {digest(b"picture"): b"picture"})


async def begin(stage: Stage, error: Exception, blobs: BlobStore | None = None) -> StoreClient:
    client = StoreClient(Losing(stage, "a", error), blobs)
    await client.commit(operations.create_run.bind(run="r", config={}, config_hash="c", kind="train", code_version="0"))
    await client.commit(operations.open_group.bind(group=making.group()))
    client.submit(operations.start_trajectory.bind(trajectory=making.trajectory("a")))
    client.submit(operations.start_trajectory.bind(trajectory=making.trajectory("b", member=1)))
    await client.flush()
    return client


def ending(name: str, **counted: Any) -> dict[str, Any]:
    return {"trajectory": name, "status": Status.COMPLETED, **counted}


@pytest.mark.parametrize("together", [True, False])
def test_a_lost_append_fails_the_ending(tmp_path: Path, together: bool) -> None:
    async def scenario(stage: Stage) -> None:
        client = await begin(stage, StoreFull("no room on the disk"))
        for name in "ab":
            for index in range(2):
                client.submit(operations.append.bind(trajectory=name, **making.turn(index)))
                if not together:
                    await client.flush()
        with pytest.raises(StoreFull, match="no room on the disk"):
            await client.commit(operations.finish_trajectory.bind(**ending("a", tally=making.tally(2))))
        with pytest.raises(StoreFull):
            client.check("a")
        await client.commit(operations.finish_trajectory.bind(**ending("b", tally=making.tally(2))))
        client.check("b")
        assert load_trajectory(stage.database, "a").status is Status.RUNNING
        assert len(load_trajectory(stage.database, "b").steps) == 2

    on_stage(tmp_path, scenario)


def test_an_error_that_is_not_of_turnwise_is_wrapped(tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        client = await begin(stage, ValueError("the reward is odd"))
        client.submit(operations.append.bind(trajectory="a", **making.turn(0)))
        with pytest.raises(NotStored, match="`append` of trajectory a failed: ValueError: the reward is odd"):
            await client.commit(operations.finish_trajectory.bind(**ending("a")))

    on_stage(tmp_path, scenario)


def test_an_unreachable_store_fails_every_write_that_was_sent() -> None:
    async def away(_: list[Write[Any]]) -> list[Any]:
        raise ConnectionError("gone")

    async def scenario() -> None:
        client = StoreClient(away)
        client.submit(operations.append.bind(trajectory="a", rows=Rows()))
        await client.flush()
        with pytest.raises(NotStored, match="ConnectionError: gone"):
            await client.commit(operations.finish_trajectory.bind(**ending("a")))
        with pytest.raises(ConnectionError):
            await client.commit(operations.close_group.bind(group="g", state=GroupState.READY))

    asyncio.run(scenario())


def test_a_store_that_does_not_answer_is_reported_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.store.writing.client.ANSWER_GRACE_S", 0.05)
    left: list[float] = []

    async def frozen(writes: list[Write[Any]]) -> list[Any]:
        left.extend(one.left_s for one in writes)
        await asyncio.sleep(60)
        return []

    async def scenario() -> None:
        client = StoreClient(frozen)
        stop = operations.request_stop.bind(run="r")
        first, second = client.submit(stop, timeout_s=0.1), client.submit(stop, timeout_s=0.2)
        await asyncio.sleep(0.01)
        behind = client.submit(stop, timeout_s=0.15)
        for future, seconds in ((first, "0.1"), (second, "0.2"), (behind, "0.15")):
            with pytest.raises(StoreUnavailable, match=f"`request_stop` was not committed within {seconds} s"):
                await future
        assert len(left) == 2, "the write behind them passed its deadline before it was sent"
        assert 0 < left[0] <= 0.1 < left[1] <= 0.2

    asyncio.run(scenario())


@pytest.mark.parametrize("limit", ["MAX_PENDING_WRITES", "MAX_PENDING_BYTES"])
def test_producers_wait_while_too_much_is_pending(
    limit: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(f"turnwise.store.writing.client.{limit}", 2 if limit.endswith("WRITES") else 2000)

    async def scenario() -> None:
        sent: list[int] = []
        go = asyncio.Event()

        async def slow(writes: list[Write[Any]]) -> list[Any]:
            await go.wait()
            sent.append(len(writes))
            return [None] * len(writes)

        client = StoreClient(slow)

        async def produce() -> None:
            await client.wait_for_room()
            client.submit(operations.request_stop.bind(run="r" * 1000))

        producing = [asyncio.create_task(produce()) for _ in range(6)]
        await asyncio.sleep(0.01)
        assert sum(one.done() for one in producing) == 2
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        go.set()
        await asyncio.gather(*producing)
        await client.flush()
        assert sum(sent) == 6
        assert max(sent) <= 2

    asyncio.run(scenario())


def test_images_are_staged_in_a_thread_and_sent_as_hashes(tmp_path: Path) -> None:
    pictures = [bytes([number]) * (INLINE_BYTES + 1) for number in range(2)]
    on_loop: list[bool] = []

    class Watched(BlobStore):
        def stage(self, new: NewBlob) -> NewBlob:
            on_loop.append(threading.current_thread() is threading.main_thread())
            return super().stage(new)

    async def scenario(stage: Stage) -> None:
        sent: list[Write[Any]] = []
        staged: list[bool] = []

        async def send(writes: list[Write[Any]]) -> list[Any]:
            sent.extend(writes)
            names = [digest(picture) for picture in pictures]
            staged.append(all((tmp_path / "turnwise.blobs" / name[:2] / name[2:4] / name).exists() for name in names))
            return await stage.send(writes)

        store = await stage.begin()
        await store.open_group(making.group())
        writer = TrajectoryWriter(StoreClient(send, Watched(stage.database.blobs.folder)), making.trajectory("a"))
        writer.start()
        [step], messages = making.records(0)
        writer.append([replace(step, images=(digest(pictures[0]),))], messages, {digest(pictures[0]): pictures[0]})
        await writer.finish(operations.Ending(Status.COMPLETED), [pictures[1]])
        assert staged[-1]
        assert on_loop == [False, False]
        assert sum(size_of(one.record) for one in sent) < INLINE_BYTES / 4
        with stage.database.read() as conn:
            assert stage.database.blobs.get_many(conn, map(digest, pictures)) == {digest(one): one for one in pictures}

    on_stage(tmp_path, scenario)


def test_content_that_cannot_be_staged_fails_its_trajectory(tmp_path: Path) -> None:
    class Full(BlobStore):
        def stage(self, new: NewBlob) -> NewBlob:
            raise StoreFull("no room on the disk")

    async def scenario(stage_of: Stage) -> None:
        client = await begin(stage_of, StoreFull("never raised"), Full(None))
        client.submit(operations.append.bind(trajectory="b", rows=illustrated()))
        with pytest.raises(StoreFull, match="no room on the disk"):
            await client.commit(operations.finish_trajectory.bind(**ending("b")))
        assert load_trajectory(stage_of.database, "b").steps == ()

    on_stage(tmp_path, scenario)


def test_a_write_does_not_wait_for_the_content_of_a_later_one() -> None:
    may_end = threading.Event()

    async def scenario() -> None:
        sent: list[int] = []

        async def send(writes: list[Write[Any]]) -> list[Any]:
            sent.append(len(writes))
            may_end.set()
            return [None] * len(writes)

        class Waiting(BlobStore):
            def stage(self, new: NewBlob) -> NewBlob:
                assert may_end.wait(10)
                return new

        client = StoreClient(send, Waiting(None))
        client.submit(operations.request_stop.bind(run="r"))
        client.submit(operations.append.bind(trajectory="b", rows=illustrated()))
        await client.flush()
        assert sent == [1, 1]

    asyncio.run(scenario())


def test_a_call_carries_a_bounded_number_of_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.store.writing.client.MAX_CALL_WRITES", 3)
    monkeypatch.setattr("turnwise.store.writing.client.MAX_CALL_BYTES", 1000)

    async def scenario() -> None:
        sent: list[int] = []

        async def send(writes: list[Write[Any]]) -> list[Any]:
            sent.append(len(writes))
            return [None] * len(writes)

        client = StoreClient(send)
        for size in (1, 1, 1, 1, 2000, 2000, 1):
            client.submit(operations.request_stop.bind(run="r" * size))
        await client.flush()
        assert sent == [3, 2, 1, 1]

    asyncio.run(scenario())
