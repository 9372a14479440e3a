"""The driver of a run: stops at its first and its last evaluation, its last seconds."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import turnwise
from turnwise.records import PolicyVersion
from turnwise.store.database import open_database
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.run import driver as driver_module
from turnwise.trainer.run.callbacks import Callbacks
from turnwise.trainer.run.driver import LAST_STEPS_S, Driver
from turnwise.trainer.run.identity import RunIdentity
from turnwise.trainer.shutdown import SHUTDOWN
from turnwise.trainer.telemetry.events import EvalResult

SETTINGS: dict[str, Any] = {
    "name": "r",
    "environments": [{"id": "turnwise/TextSite-v0"}],
    "model": {"new": {"hidden": 32, "heads": 1, "layers": 1}},
}
EVALUATION = EvalResult("after", "r", 1, 0, 0, 1.0, 0.2, 1.0, 1.0, 2.0)


class Stopping(turnwise.Callback):
    """Stops at the first evaluation."""

    status = ""

    def on_evaluation(self, evaluation: EvalResult) -> None:
        raise turnwise.StopRun("good enough")

    def on_end(self, end: turnwise.RunEnded) -> None:
        self.status = end.status


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    database = open_database(f"sqlite:///{tmp_path}/turnwise.db", create=True)
    identity = RunIdentity("r", resumes=False)
    one = Driver(parse_config(SETTINGS), database, identity, lambda event: None, 0.0, Callbacks([Stopping()]))
    yield one
    one._metrics.finish("stopped")
    database.close()


def test_a_stop_at_the_last_evaluation_leaves_a_finished_run(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "summarize", lambda *values: values[3])

    async def evaluate(name: str, update: int) -> None:
        driver._receive(EVALUATION)

    async def prepare() -> None:
        driver._state.current = PolicyVersion("r", 1, None, 0)
        evaluator = SimpleNamespace(evaluate=evaluate, results={})
        driver._session = cast(Any, SimpleNamespace(context=None, evaluator=evaluator))

    monkeypatch.setattr(driver, "_prepare", prepare)
    assert cast(object, asyncio.run(driver._run())) == "finished"
    assert driver._state.stop.reason == "callback `Stopping`: good enough"


@pytest.mark.parametrize(("seconds", "status"), [(1.0, "stopped"), (1e9, "finished")])
def test_a_stop_during_the_training_evaluates_the_policy(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, seconds: float, status: str
) -> None:
    monkeypatch.setattr(driver_module, "summarize", lambda *values: values[2:4])
    state, results = driver._state, dict[str, EvalResult]()

    async def evaluate(name: str, update: int) -> None:
        results[name] = EVALUATION

    async def opened(*values: object) -> None:
        """Play nothing."""

    async def prepare() -> object:
        state.current, state.trained_s = PolicyVersion("r", 1, None, 0), seconds
        evaluator = SimpleNamespace(evaluate=evaluate, results=results)
        driver._session = cast(Any, SimpleNamespace(context=None, evaluator=evaluator))
        return SimpleNamespace(learner=SimpleNamespace(close=lambda: None))

    class Loop:
        def __init__(self, *values: object) -> None:
            assert not state.ends_early

        async def train(self) -> None:
            for _ in range(2):
                driver._receive(EVALUATION)
            context: Any = SimpleNamespace(store=SimpleNamespace(is_stop_requested=no))
            assert await state.must_stop(context)

    async def no() -> bool:
        return False

    driver._config = driver._config.model_copy(update={"max_seconds": 1e6})
    monkeypatch.setattr(driver, "_prepare", prepare)
    monkeypatch.setattr("turnwise.trainer.run.played_groups.PlayedGroups.open", opened)
    monkeypatch.setattr("turnwise.trainer.run.loop.TrainingLoop", Loop)
    assert cast(object, asyncio.run(driver._run())) == ({"after": EVALUATION}, status)
    assert state.ends_early == "callback `Stopping`: good enough"


def test_a_stop_before_the_first_version_is_an_error_of_turnwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prepare(driver: Driver) -> None:
        driver._receive(EVALUATION)
        await asyncio.sleep(60)

    monkeypatch.setattr(Driver, "_prepare", prepare)
    monkeypatch.setattr("turnwise.trainer.run.run.start_ray", lambda address: None)
    monkeypatch.setattr("turnwise.trainer.run.run.refuse", lambda refusals: None)
    stopping = Stopping()
    with pytest.raises(turnwise.StoppedEarly, match="run r was stopped before its first version"):
        turnwise.train(SETTINGS, callbacks=[stopping], store=f"sqlite:///{tmp_path}/turnwise.db")
    assert stopping.status == "stopped"


@pytest.mark.parametrize(("left_s", "given_s"), [(float("inf"), float("inf")), (4.0, 4.0 - LAST_STEPS_S), (0.5, 0.0)])
def test_the_trackers_end_before_the_forced_exit(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, left_s: float, given_s: float
) -> None:
    given: list[float] = []
    monkeypatch.setattr(SHUTDOWN, "left_s", lambda: left_s)
    monkeypatch.setattr(driver._metrics, "close", given.append)
    asyncio.run(driver._close("stopped"))
    assert given == [given_s]
