"""A training run from its first line to its last: start, warm up, evaluate, roll out and learn at once, checkpoint,
finish.

Rollout and learning wait for each other only through the store's counts (``admission``) and the sweep
(``staleness``). A run ends as finished, stopped (asked to, or interrupted: resumable) or failed; a process that is
killed leaves it running, and the same command goes on from the newest checkpoint.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import monotonic, time
from typing import Any

from .. import __version__
from ..agents.episode import Outcome
from ..envs.registry import spec
from ..errors import TurnwiseError
from ..records import GroupState, PolicyVersion, Status
from ..store import queries, totals
from ..store.database import Database, open_database
from ..store.errors import NotFound
from . import checkpoint
from .cluster import Cluster, start_ray, stop_ray
from .config import RunConfig
from .dispatch import Dispatcher
from .evaluation import EvalResult
from .evaluator import Evaluator
from .events import Event, Note
from .extensions import Extensions
from .faults import point
from .identity import Identity, decide, hold
from .learning import Learning, Trained, update_done
from .metrics import Metrics
from .origin import Origin, begin
from .result import RunResult, draw_curve, result

NOTE_EVERY = 15.0
"""Seconds the learner waits before it says for what."""
BEFORE_WARMUP = -1
"""Place in the history of a new model's weights before the format warm-up; those it trains from are 0."""


def train(
    config: RunConfig, *, store_url: str, fork: bool = False, on_event: Callable[[Event], None] = lambda event: None
) -> RunResult:
    """Begin or resume the run that ``config`` names, and see it to its end.

    Raises:
        TurnwiseError: the run is refused, or something failed for good; the run's row says so too.
    """
    started = monotonic()
    for one in config.environments:
        spec(one.id)
    database = open_database(store_url, create=True)
    with database.read() as conn:
        identity = decide(config, lambda name: _row(conn, name), fork)
    folder = run_folder(database, identity.name)
    with hold(folder):
        start_ray(config.ray_address)
        try:
            return asyncio.run(Run(config, database, identity, folder, on_event, started).main())
        finally:
            stop_ray()


def run_folder(database: Database, name: str) -> Path:
    """Where a run keeps its model, checkpoints and metrics: beside an SQLite store, else under ``runs/``."""
    path = database.engine.url.database if database.engine.dialect.name == "sqlite" else None
    return (Path(path).resolve().parent if path else Path("runs").resolve()) / name


class Run:
    """The driver of one run, in one event loop."""

    def __init__(
        self,
        config: RunConfig,
        database: Database,
        identity: Identity,
        folder: Path,
        on_event: Callable[[Event], None],
        started: float,
    ) -> None:
        self.config = config
        self.database = database
        self.name = identity.name
        self.identity = identity
        self.folder = folder
        self.tell = on_event
        self.started = started
        self.extensions = Extensions.of(config)
        self.rng = Random(config.seed)  # noqa: S311 - reproducible, not secret
        self.metrics = Metrics(folder, config.tensorboard)
        self.trained_seconds = 0.0
        self.stopping = ""

    async def main(self) -> RunResult:
        """Run, and record how it ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, signal.Signals(number).name)
        origin = await begin(self)
        model = origin.model
        self.cluster = Cluster.start(self.config, self.database, model, self.extensions.rollout_controller)
        self.evaluator = Evaluator(
            self.name,
            self.config,
            self.extensions.horizon.longest(),
            self.cluster,
            self._members,
            self.metrics,
            self.tell,
        )
        status, error = "failed", ""
        try:
            await self._record(origin)
            await self._prepare(origin)
            await self._train()
            status = "stopped" if self.stopping else "finished"
            if status == "finished":
                await self.evaluator.evaluate("after", self.version.update)
            return self._result(status)
        except TurnwiseError as failure:
            error = str(failure)
            raise
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            await self._end(status, error)

    def _stop(self, reason: str) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = reason
        self.tell(Note(f"{reason}: stopping after this update; the same command resumes the run (again: stop at once)"))

    async def _record(self, origin: Origin) -> None:
        await self.cluster.journal.commit(
            "create_run",
            run=self.name,
            config=self.config.resolved(),
            config_hash=self.config.digest(),
            kind="train",
            code_version=__version__,
            parent=self.identity.parent,
        )
        if self.identity.resumes:
            lost = await self.cluster.journal.commit("rewind", run=self.name, version=origin.version)
            what = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in lost.items() if count)
            self.tell(Note(f"resuming run {self.name} at update {origin.update}: {what or 'nothing was lost'}"))
        for note in origin.notes:
            self.tell(Note(note))

    async def _prepare(self, origin: Origin) -> None:
        """Learner, engines, and the version training starts from; evaluation before and after the warm-up."""
        commit = self.cluster.journal.commit
        self.learner = await asyncio.to_thread(origin.make_learner)
        self.weights = origin.make_weights(self.learner)
        if origin.version is None and origin.warms_up:
            before = await commit("add_version", run=self.name, update=BEFORE_WARMUP, parent=None)
            await self.cluster.write(self.weights)
            warming = asyncio.create_task(asyncio.to_thread(origin.warm_up, self.learner))
            await self.cluster.ready()
            await self.cluster.push(None, before)
            await self.evaluator.evaluate("untrained", BEFORE_WARMUP)
            await warming
            self.tell(Note(f"format warm-up done, {monotonic() - self.started:.0f} s after the start"))
            self.version = await self._first_version(before)
            await self.cluster.push(self.weights, self.version.id)
            await self.evaluator.evaluate("warmup", 0)
        else:
            await self.cluster.ready()
            if origin.version is None:
                self.version = await self._first_version(None)
            else:
                self.version = PolicyVersion(self.name, origin.version, None, origin.update)
                results = origin.state["evaluations"]
                self.evaluator.results = {name: EvalResult(**value) for name, value in results.items()}
                self.trained_seconds = origin.state["trained_seconds"]
                self.extensions.load_state_dict(origin.state["extensions"])
                kind, words, gauss = origin.state["rng"]
                self.rng.setstate((kind, tuple(words), gauss))
            await self.cluster.push(self.weights, self.version.id)
            if origin.version is None:
                await self.evaluator.evaluate("untrained", 0)
        if origin.version is None:
            await self._checkpoint()

    async def _first_version(self, parent: int | None) -> PolicyVersion:
        number = await self.cluster.journal.commit("add_version", run=self.name, update=0, parent=parent)
        return PolicyVersion(self.name, number, parent, 0)

    async def _train(self) -> None:
        with self.database.read() as conn:
            history = queries.versions(conn, self.name)
            first_group = totals.count_groups(conn, self.name)
        history[self.version.id] = self.version
        self.dispatcher = Dispatcher(
            self.name,
            self.config,
            self.extensions,
            self.cluster.workers,
            self.cluster.journal,
            self._counts,
            self._members,
            self.rng,
            first_group,
        )
        self.learning = Learning(
            self.name,
            self.config,
            self.extensions,
            self.learner,
            self.cluster.journal,
            lambda ids: queries.load_groups(self.database, ids),
            history,
            self.rng,
        )
        self.dispatcher.update = self.version.update
        self.dispatcher.paused = False
        await self.dispatcher.fill()
        last = waiting = monotonic()
        idle = await self.cluster.busy()
        try:
            while not await self._done():
                groups = await self._next_batch(waiting)
                if not groups:
                    break
                ready = monotonic()
                trained = await self.learning.update(groups, self.version, self._progress(), ready - waiting)
                if trained is not None:
                    await self._publish(trained)
                    now = monotonic()
                    self.trained_seconds += now - last
                    self._report(trained, now - last)
                    last = now
                    if await self._pauses(trained.update):
                        last = monotonic()
                await self.dispatcher.fill()
                waiting = monotonic()
            busy = await self.cluster.busy()
            spent = {**busy, **{name: busy[name] - idle[name] for name in ("busy_s", "sampled_tokens")}}
            self.metrics.write("engines", self.version.update, spent)
        finally:
            await self.dispatcher.cancel()

    async def _next_batch(self, since: float) -> Any:
        """Groups to train on; waits for them, says for what, and not for ever."""
        noted = since
        deadline = since + 2 * self.config.rollout.group_deadline + 120
        while True:
            self.dispatcher.closed.clear()
            if failure := self.dispatcher.failure or self.cluster.failure:
                raise failure
            if self.stopping:
                return None
            if groups := await self.learning.lease():
                return groups
            await self.dispatcher.fill()
            now = monotonic()
            if now - noted > NOTE_EVERY:
                counts = self._counts()
                noted = now
                self.tell(
                    Note(
                        f"the learner waits for groups, {now - since:.0f} s so far: "
                        f"{counts.get(GroupState.READY, 0)} ready, {counts.get(GroupState.OPEN, 0)} running"
                    )
                )
            if now > deadline:
                raise TurnwiseError(
                    f"no batch came together within {deadline - since:.0f} s; see run {self.name}'s failed groups"
                )
            try:
                async with asyncio.timeout(1.0):
                    await self.dispatcher.closed.wait()
            except TimeoutError:
                continue

    async def _publish(self, trained: Trained) -> None:
        """The engines get the new weights before another group opens."""
        self.dispatcher.paused = True
        self.version = self.learning.history[trained.version]
        await self.cluster.push(self.weights, trained.version)
        point("after_push")
        self.dispatcher.update = trained.update
        self.dispatcher.paused = False

    async def _pauses(self, update: int) -> bool:
        """Checkpoint and evaluate where due; whether anything was."""
        due = update % self.config.checkpoint.every == 0
        if due:
            await self._checkpoint()
        if self.config.evaluation.every and update % self.config.evaluation.every == 0:
            self.dispatcher.paused = True
            await self.evaluator.evaluate(f"update {update}", update)
            self.dispatcher.paused = False
            due = True
        return due

    def _progress(self) -> float:
        budget = self.config.budget
        spent = self.version.update / budget.updates
        return min(1.0, max(spent, self.trained_seconds / budget.seconds if budget.seconds else 0.0))

    async def _done(self) -> bool:
        if self._progress() >= 1.0:
            await self._checkpoint()
            return True
        with self.database.read() as conn:
            row = queries.run_row(conn, self.name)
        if row["stop_requested"] and not self.stopping:
            self._stop("asked to stop")
        if self.stopping:
            await self._checkpoint()
            return True
        return False

    async def _checkpoint(self) -> None:
        kind, words, gauss = self.rng.getstate()
        state = {
            "run": self.name,
            "update": self.version.update,
            "version": self.version.id,
            "trained_seconds": self.trained_seconds,
            "evaluations": {name: one.json() for name, one in self.evaluator.results.items()},
            "extensions": self.extensions.state_dict(),
            "rng": [kind, list(words), gauss],
            "saved_at": time(),
        }
        folder = self.folder / "checkpoints"
        path = await asyncio.to_thread(
            checkpoint.save,
            folder,
            self.version.id,
            self.learner.model,
            self.learner.optimizer,
            self.folder / "tokenizer",
            state,
        )
        await self.cluster.journal.commit("set_checkpoint", run=self.name, version=self.version.id, path=str(path))
        point("checkpoint_committed")
        with self.database.read() as conn:
            kept = [one.checkpoint for one in queries.checkpoints(conn, self.name)]
        checkpoint.prune(folder, {Path(one).name for one in kept[-self.config.checkpoint.keep :]} | {path.name})

    def _report(self, trained: Trained, seconds: float) -> None:
        event = update_done(trained, seconds, self.trained_seconds, self._counts())
        self.metrics.write("update", trained.update, {**trained.metrics, **asdict(event)})
        self.tell(event)

    def _counts(self) -> dict[GroupState, int]:
        with self.database.read() as conn:
            return queries.group_counts(conn, self.name)

    def _members(self, group: str) -> list[Outcome]:
        with self.database.read() as conn:
            rows = totals.group_members(conn, group)
        return [
            Outcome(
                row["id"],
                row["member"],
                row["attempt"],
                Status(row["status"]),
                row["reward"],
                row["success"],
                row["n_steps"],
                row["n_tokens"],
                row["error"],
            )
            for row in rows
        ]

    def _result(self, status: str) -> RunResult:
        held = self.evaluator.results
        return result(self.name, status, self.version.update, held, self.database, self.folder, self.started)

    async def _end(self, status: str, error: str) -> None:
        try:
            await self.cluster.journal.commit("finish_run", run=self.name, status=status, error=error[:4000])
            if hasattr(self, "version"):
                held = self.evaluator.results
                await asyncio.to_thread(draw_curve, self.name, self.version.update, held, self.database, self.folder)
        finally:
            await self.cluster.close()
            self.metrics.close()


def _row(conn: Any, name: str) -> Any:
    try:
        return queries.run_row(conn, name)
    except NotFound:
        return None
