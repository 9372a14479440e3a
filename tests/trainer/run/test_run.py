"""A run that lacks a part is refused before it starts anything, and one whose learner dies gets another learner."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from turnwise.errors import TurnwiseError
from turnwise.store import operations, queries
from turnwise.store.database import open_database
from turnwise.tests.store.making import create_run, sqlite_store
from turnwise.tests.trainer.planning.planned_runs import run_config
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.base import RankFailed, RanksLate
from turnwise.trainer.run import driver, run
from turnwise.trainer.run.callbacks import Callbacks
from turnwise.trainer.run.identity import RunIdentity
from turnwise.trainer.run.run import MAX_LEARNER_DEATHS, train
from turnwise.trainer.shutdown import SHUTDOWN


def test_a_desktop_in_the_local_backend_starts_nothing(tmp_path: Path) -> None:
    desktop = {"id": "turnwise/TinyDesktop-v0"}
    config = parse_config({"name": "r", "environments": [desktop], "sandboxes": {"backend": "local"}})
    notes: list[object] = []
    with pytest.raises(TurnwiseError, match="`local` has no images"):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db", report=notes.append)
    assert notes == []
    assert not (tmp_path / "turnwise.db").exists()


def test_a_run_whose_gpus_are_missing_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    notes: list[object] = []
    with pytest.raises(TurnwiseError, match="the run needs 1 GPU"):
        train(
            run_config(engine={"tensor_parallel_size": 1}),
            store_url=f"sqlite:///{tmp_path}/turnwise.db",
            report=notes.append,
        )
    assert notes == []
    assert not (tmp_path / "turnwise.db").exists()


@pytest.mark.parametrize(("resumes", "hint"), [(False, run.NOT_BEGUN), (True, driver.RESUMES)])
def test_a_signal_is_answered_by_the_effect_of_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumes: bool, hint: str
) -> None:
    hints = []

    def start(address: object) -> None:
        hints.append(SHUTDOWN.hint)
        raise TurnwiseError("Ray does not start")

    monkeypatch.setattr(run, "start_ray", start)
    monkeypatch.setattr(run, "resolve_run", lambda *_: RunIdentity("r", resumes))
    monkeypatch.setattr(SHUTDOWN, "hint", "")
    config = parse_config({"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}]})
    with pytest.raises(TurnwiseError, match="Ray does not start"):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db")
    assert hints == [hint]


def test_a_run_with_a_row_is_resumed_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(**_: object) -> None:
        assert SHUTDOWN.hint == "before"

    monkeypatch.setattr(SHUTDOWN, "hint", "before")
    monkeypatch.setattr(SHUTDOWN, "record", None)
    database = open_database(sqlite_store(tmp_path))
    one = driver.Driver(run_config(), database, RunIdentity("planned", False), lambda event: None, 0.0, Callbacks())
    store = SimpleNamespace(create=create, epoch=1)
    initial: Any = SimpleNamespace(notes=(), parent_version=None, update=0)
    asyncio.run(one._record(SimpleNamespace(store=store, name="planned"), initial))  # type: ignore[arg-type]
    assert SHUTDOWN.hint == driver.RESUMES
    one._metrics.finish("stopped")
    database.close()


class Dying:
    """Stands for the driver of a run whose learner dies a number of times before its first checkpoint."""

    def __init__(self, deaths: int, failure: type[RankFailed]) -> None:
        self.deaths, self.failure = deaths, failure
        self.began: list[bool] = []

    def __call__(
        self, config: Any, database: Any, identity: RunIdentity, report: Any, started: float, callbacks: Any
    ) -> Any:
        self.began.append(identity.resumes)
        return self

    async def main(self) -> str:
        await asyncio.sleep(0)
        if self.deaths:
            self.deaths -= 1
            raise self.failure("rank 0 of 2 of the learner died during `connect`")
        return "finished"


def drive(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    deaths: int,
    failure: type[RankFailed] = RankFailed,
    stops: bool = False,
) -> tuple[Any, Dying, list[Any]]:
    dying = Dying(deaths, failure)
    notes: list[Any] = []
    monkeypatch.setattr(run, "Driver", dying)
    database = open_database(sqlite_store(folder))
    create_run(database, "planned")
    if stops:
        with database.transaction() as tx:
            operations.request_stop(tx, run="planned")
    try:
        identity = RunIdentity("planned", False)
        return run._drive(run_config(), database, identity, notes.append, 0.0, Callbacks()), dying, notes
    finally:
        database.close()


def test_a_run_whose_learner_dies_before_a_checkpoint_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, dying, notes = drive(tmp_path, monkeypatch, MAX_LEARNER_DEATHS - 1)
    assert result == "finished"
    assert dying.began == [False, True, True]
    assert [note.text.partition("; ")[2] for note in notes] == ["replacing the learner from the start of the run"] * 2


def test_a_run_whose_learner_keeps_dying_ends_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RankFailed, match=r"died 3 times since the start of the run: .* the same command to resume"):
        drive(tmp_path, monkeypatch, MAX_LEARNER_DEATHS)


def test_a_run_that_was_asked_to_stop_gets_no_other_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RankFailed, match="the run was to stop: the same command resumes it from the start of the run"):
        drive(tmp_path, monkeypatch, 1, stops=True)


@pytest.mark.parametrize("saved", [None, SimpleNamespace(update=3)], ids=["no-checkpoint", "checkpoint"])
def test_a_run_whose_ranks_never_started_is_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: object
) -> None:
    monkeypatch.setattr(queries, "latest_checkpoint", lambda connection, name: saved)
    with pytest.raises(RanksLate, match=r"^rank 0 of 2"):
        drive(tmp_path, monkeypatch, 1, RanksLate)
