"""Each write of an episode's end and of a checkpoint fails in turn: the store opens, and a whole checkpoint is newest.

Counted are the files opened for writing, created folders, syncs, renames, files of tensors, and the statements and
commits of the database. A fault is an error of the disk, or ends the process as far as an exception can: no handler of
errors runs, but ``finally`` does. ``tests/soak/kills.py`` kills real processes.
"""

import asyncio
import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import safetensors
import safetensors.torch
from sqlalchemy import event
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.records import Status
from turnwise.store import operations, queries
from turnwise.store.content.rows import Written
from turnwise.store.database import Database, open_database
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.run_store import RunStore
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import create_run, group, trajectory, turn
from turnwise.trainer.algorithms.algorithm_set import AlgorithmSet
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.context import RunContext
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.checkpoint import CheckpointManager
from turnwise.trainer.telemetry.metrics import Metrics

CONFIG = parse_config({"name": "r", "environments": [{"id": "e"}], "checkpoint": {"keep_last": 1, "keep_first": False}})
PAGE = Random(0).randbytes(40_000).hex()
"""An observation that is stored as a file."""
WRITING = frozenset("wax+")


class Killed(BaseException):
    """The death of the process: no handler of errors runs."""


class Faults:
    """Counts writes; the ``nth`` one after ``arm`` raises what ``fault`` returns."""

    def __init__(self, patch: pytest.MonkeyPatch, fault: Callable[[], BaseException]) -> None:
        self._fault, self._left = fault, 0
        for owner, name in ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "mkdir")):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))
        for owner in (builtins, io):
            patch.setattr(owner, "open", self._opening(open))
        patch.setattr(safetensors.torch, "serialize_file", self._torn(safetensors.serialize_file))

    def arm(self, nth: int) -> None:
        self._left = nth

    @property
    def struck(self) -> bool:
        return self._left == 0

    def count(self, *_: Any) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                raise self._fault()

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.count()
            return real(*arguments, **options)

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if WRITING & set(mode):
                self.count()
            return real(file, mode, *arguments, **options)

        return call

    def _torn(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Leave half of the file at a fault."""

        def call(tensors: Any, path: Any, *arguments: Any, **options: Any) -> Any:
            real(tensors, path, *arguments, **options)
            try:
                self.count()
            except BaseException:
                os.truncate(path, Path(path).stat().st_size // 2)
                raise

        return call


class Stage:
    """A run with a checkpoint of version 0 and an episode that plays; ``restore`` brings it back."""

    def __init__(self, folder: Path) -> None:
        self.home, self._pristine = folder / "home", folder / "pristine"
        model = new_model(folder / "model", ["a", "b"], hidden=16, heads=1, layers=1)
        self._learner = Learner(model, CONFIG.learner, CONFIG.loss, CONFIG.proximal, 1.0)
        shutil.copytree(model, self.home / "r" / "tokenizer")
        self.model = model
        database = self.open(create=True)
        create_run(database)
        writer = CommitQueue(database)
        writer.commit(operations.open_group.bind(group=group()))
        writer.commit(operations.start_trajectory.bind(trajectory=trajectory("t")))
        writer.commit(operations.add_version.bind(run="r", update=0, parent=None))
        asyncio.run(self.save(writer, database, 0))
        writer.commit(operations.add_version.bind(run="r", update=1, parent=0))
        writer.close()
        database.close()
        shutil.copytree(self.home, self._pristine)

    def restore(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self._pristine, self.home)

    def open(self, *, create: bool = False) -> Database:
        return open_database(f"sqlite:///{self.home}/turnwise.db", create=create)

    async def save(self, writer: CommitQueue, database: Database, version: int) -> None:
        """Save a checkpoint as a run does."""
        store, metrics = RunStore("r", database, StoreClient(writer.run)), cast(Metrics, None)
        context = RunContext(
            CONFIG, AlgorithmSet.of(CONFIG), database, store, self.home / "r", Streams(0), metrics, lambda event: None
        )
        state = {"run": "r", "update": version, "version": version}
        manager = CheckpointManager(context, self._learner, await store.uid(), self.model, lambda: state)
        await manager.save(version)


def play(writer: CommitQueue) -> None:
    """Play the last turn of the episode and end it."""
    written, said = Written(), turn(0, text=PAGE)
    written.add(said["rows"])
    writer.commit(operations.append.bind(trajectory="t", **said))
    ending = operations.finish_trajectory.bind(trajectory="t", status=Status.COMPLETED, tally=written.tally())
    writer.commit(ending)


def check(stage: Stage, *, played: bool, saved: bool) -> None:
    """Check what is stored after a fault; ``played`` and ``saved`` were answered."""
    database = stage.open()
    assert list(check_store(database, content=True)) == []
    if played:
        stored = queries.load_trajectory(database, "t")
        assert (stored.status, [one.observation for one in stored.steps]) == (Status.COMPLETED, [PAGE])
    with database.read() as conn:
        uid, recorded = queries.find_run(conn, "r").uid.hex, queries.checkpoints(conn, "r")
        newest = recorded[-1]
    assert newest.id in ((1,) if saved else (0, 1))
    assert checkpoint.verify(Path(newest.checkpoint), uid)["version"] == newest.id
    writer = CommitQueue(database)
    asyncio.run(stage.save(writer, database, 1))
    writer.close()
    assert [one.name for one in (stage.home / "r" / "checkpoints").iterdir()] == ["1"]
    assert checkpoint.verify(stage.home / "r" / "checkpoints" / "1", uid)["version"] == 1
    database.close()


@pytest.mark.parametrize(
    ("kills", "step"),
    [
        (False, 23),
        (True, 7),
        pytest.param(False, 1, marks=pytest.mark.soak),
        pytest.param(True, 1, marks=pytest.mark.soak),
    ],
)
def test_after_any_failed_write_the_store_opens_with_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: bool, step: int
) -> None:
    """``step`` 1 fails every write; in CI, some of them. A death is one during the checkpoint."""
    stage = Stage(tmp_path)
    faults = Faults(monkeypatch, Killed if kills else lambda: OSError(errno.EIO, "injected"))
    nth, ends = 1, set()
    while True:
        stage.restore()
        database = stage.open()
        writer = CommitQueue(database)
        played = saved = False
        if kills:
            play(writer)
            played = True
        else:
            for moment in ("after_cursor_execute", "commit"):
                event.listen(database.engine, moment, faults.count)
        faults.arm(nth)
        try:
            if not kills:
                play(writer)
                played = True
            asyncio.run(stage.save(writer, database, 1))
            saved = True
        except (TurnwiseError, OSError, Killed):
            pass
        struck = faults.struck
        faults.arm(0)
        writer.close()
        database.close()
        if not struck:
            break
        check(stage, played=played, saved=saved)
        ends.add((played, saved))
        nth += step
    assert saved
    assert nth > 25, "few writes were counted"
    assert (True, False) in ends
