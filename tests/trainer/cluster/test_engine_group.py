"""Engines of which some die, hang or refuse a call."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import OutOfMemoryError, RayActorError
from turnwise.errors import TurnwiseError
from turnwise.trainer.cluster import engines
from turnwise.trainer.cluster.actors import Cluster, StoreAccess
from turnwise.trainer.cluster.engines import EngineGroup


class Faulty:
    """An engine's handle: it fails a number of calls, and then answers after a time that it has no version."""

    def __init__(
        self,
        node: str,
        deaths: int = 0,
        delay_s: float = 0.0,
        death: Exception = RayActorError(),  # noqa: B008
    ) -> None:
        self.info = self
        self._death = death
        self._node, self.deaths, self._delay_s = node, deaths, delay_s

    async def remote(self, *_: Any) -> dict[str, Any]:
        if self.deaths:
            self.deaths -= 1
            raise self._death
        await asyncio.sleep(self._delay_s)
        return {"node": self._node, "version": None, "incarnation": ""}


@pytest.mark.parametrize("death", [RayActorError(), OutOfMemoryError("the host ran short of memory")])
def test_an_engine_that_died_is_read_and_loaded_after_its_restart(
    monkeypatch: pytest.MonkeyPatch, death: Exception
) -> None:
    monkeypatch.setattr(engines, "RETRY_INTERVAL_S", 0.001)
    group = EngineGroup([Faulty("a"), Faulty("b", deaths=2, death=death), Faulty("a")])
    assert asyncio.run(group.nodes()) == {"a", "b"}
    loading = Loading(2)
    loading.engines[1].deaths = [death, death]
    asyncio.run(EngineGroup(loading.engines).serve_loaded(5))
    assert [one.versions for one in loading.engines] == [[5], [5]]


def test_an_engine_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PUSH_TIMEOUT_S", 0.1)
    group = EngineGroup([Faulty("a"), Faulty("b", delay_s=60)])
    with pytest.raises(TurnwiseError, match=r"within 0\.1 s"):
        asyncio.run(group.nodes())


class Broken(Faulty):
    """An engine's handle that raises an error of another kind when it is to load its weights."""

    @property
    def use_loaded_weights(self) -> Any:
        raise AttributeError("no such method")


def test_an_error_of_the_watch_ends_the_run_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "WATCH_INTERVAL_S", 0.001)

    async def scenario() -> TurnwiseError:
        group = EngineGroup([Broken("a")])
        group.version = 3
        group.watch()
        async with asyncio.timeout(5):
            while group.failure is None:
                await asyncio.sleep(0.001)
        return group.failure

    failure = asyncio.run(scenario())
    assert "engine 0 was restarted and could not load version 3: AttributeError: no such method" in str(failure)


def test_the_death_of_an_engine_and_its_return_are_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "WATCH_INTERVAL_S", 0.001)
    loader, notes = _Loader(Loading(1)), list[str]()

    class Restarting(Faulty):
        async def remote(self, *_: Any) -> dict[str, Any]:
            return await super().remote() | {"version": loader.versions[-1] if loader.versions else None}

    loader.info = Restarting("a", deaths=3)

    async def scenario() -> None:
        group = EngineGroup([loader], note=notes.append)
        group.version = 3
        group.watch()
        async with asyncio.timeout(5):
            while len(notes) < 2:
                await asyncio.sleep(0.001)

    asyncio.run(scenario())
    assert [note.partition(";")[0] for note in notes[:2]] == ["engine 0 died", "engine 0 serves again"]


class Loading:
    """The handles of engines that count how many of them load weights at the same time."""

    def __init__(self, count: int) -> None:
        self.engines = [_Loader(self) for _ in range(count)]
        self.running = self.most = 0


class _Loader:
    def __init__(self, whole: Loading) -> None:
        self.use_loaded_weights = self.update_weights = self
        self.info = Faulty("a")
        self.versions: list[int] = []
        self.deaths: list[Exception] = []
        self._whole = whole

    async def remote(self, *arguments: Any) -> None:
        if self.deaths:
            raise self.deaths.pop()
        self._whole.running += 1
        self._whole.most = max(self._whole.most, self._whole.running)
        await asyncio.sleep(0.001)
        self._whole.running -= 1
        self.versions.append(arguments[-1])


class Sender:
    """A sender of nothing."""

    def __init__(self, keeps_weights: bool) -> None:
        self.keeps_weights = keeps_weights

    def write(self) -> None: ...

    def offer(self, engine: int, incarnation: str) -> dict[str, Any]:
        return {}

    def send(self, engine: int) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("count", "keeps_weights", "at_once"), [(16, True, 4), (7, True, 1), (2, True, 1), (16, False, 1)]
)
def test_a_share_of_the_engines_loads_a_copy_of_the_weights_at_once(
    count: int, keeps_weights: bool, at_once: int
) -> None:
    loading = Loading(count)
    asyncio.run(EngineGroup(loading.engines).publish(Sender(keeps_weights), 5))
    assert loading.most == at_once
    assert [one.versions for one in loading.engines] == [[5]] * count


def test_an_engine_that_is_late_is_named_after_the_others_have_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PUSH_TIMEOUT_S", 0.5)
    loading = Loading(8)
    late = loading.engines[1]
    late.use_loaded_weights = Faulty("a", delay_s=60)  # type: ignore[assignment]
    group = EngineGroup(loading.engines)
    with pytest.raises(TurnwiseError, match=r"engine 1 did not load version 5 within 0\.5 s"):
        asyncio.run(group.serve_loaded(5))
    assert loading.engines[0].versions == [5]


def test_a_larger_model_has_more_time_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PUSH_TIMEOUT_S", 0.05)
    slow = Faulty("a", delay_s=0.3)
    with pytest.raises(TurnwiseError, match=r"within 0\.05 s"):
        asyncio.run(EngineGroup([slow]).nodes())
    assert asyncio.run(EngineGroup([slow], allowance_s=30.0).nodes()) == {"a"}


def test_a_writer_that_is_gone_or_restarts_does_not_keep_a_finished_run_from_its_end() -> None:
    def writer(end: Exception) -> SimpleNamespace:
        return SimpleNamespace(close=Faulty("a", deaths=1, death=end))

    lost = {"a": writer(RayActorError()), "b": writer(OutOfMemoryError("Ray killed it"))}
    asyncio.run(StoreAccess(None, lost).close())  # type: ignore[arg-type]
    assert [one.close.deaths for one in lost.values()] == [0, 0]
    with pytest.raises(TurnwiseError, match="disk full"):
        asyncio.run(StoreAccess(None, {"a": writer(TurnwiseError("disk full"))}).close())  # type: ignore[arg-type]


def test_engines_and_writers_that_do_not_start_are_named() -> None:
    group = EngineGroup([Faulty("a"), Faulty("b", delay_s=60)], allowance_s=0.05, start_timeout_s=0.05)
    writer = SimpleNamespace(ping=Faulty("a", delay_s=60))
    store = StoreAccess(None, {"0123456789": writer})  # type: ignore[arg-type]
    cluster = Cluster(group, None, store, None)  # type: ignore[arg-type]
    with pytest.raises(
        TurnwiseError, match=r"^engine 1, the store's writer on node 01234567 did not start within 0\.1 s"
    ):
        asyncio.run(cluster.ready())
