"""A training run from its first line to its last: start, warm up, evaluate, roll out and learn at once, checkpoint,
finish.

Rollout and learning wait for each other only through the store's counts (``admission``) and the sweep
(``staleness``). A run ends as finished, stopped (asked to, or interrupted: resumable) or failed; a process that is
killed leaves it running, and the same command goes on from the newest checkpoint.

What imports torch is imported while Ray starts: each takes seconds.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...envs.registry import spec
from ...errors import TurnwiseError
from ...logs import LogFolder
from ...records import PolicyVersion
from ...store import queries
from ...store.database import Database, open_database
from ...store.errors import NotFound
from ...store.run_lock import hold_run, run_folder
from ...store.run_store import RunStore, finish_if_running
from ..algorithms.random_streams import Streams
from ..cluster.actors import Cluster, check_store_reach, start_ray, stop_ray
from ..config.schema import RunConfig
from ..evaluation.heldout import EvalResult
from ..evaluation.in_run import Evaluator
from ..evaluation.sight import refuse_unseen
from ..shutdown import SHUTDOWN
from ..telemetry.events import Event, Note
from ..telemetry.metrics import Metrics
from .identity import Identity, decide
from .summary import RunResult, draw_curve, result

if TYPE_CHECKING:
    from .initial_state import Origin

LOG = logging.getLogger(__name__)

HEAVY = (".initial_state", "..learner.checkpoint_manager", ".loop")
"""Modules here that import torch."""
BEFORE_WARMUP = -1
"""Place in the history of a new model's weights before the format warm-up; those it trains from are 0."""
STOPPED_CLOSE_S = 3.0
"""Seconds a stopped run's actors get to close; then they are killed."""


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
    with hold_run(database, identity.name), LogFolder.of(folder).writing("driver"):
        SHUTDOWN.hint = "stopping; the same command resumes the run (a second signal ends it at once)"
        SHUTDOWN.record = partial(finish_if_running, database, identity.name)
        with ThreadPoolExecutor(1) as meanwhile:
            importing = meanwhile.submit(lambda: [import_module(name, __package__) for name in HEAVY])
            start_ray(config.ray_address)
        try:
            check_store_reach(database)
            importing.result()
            return asyncio.run(Run(config, database, identity, folder, _logged(on_event), started).main())
        finally:
            stop_ray()


def _logged(on_event: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a receiver of events that logs each before it passes it on."""

    def receive(event: Event) -> None:
        if isinstance(event, Note):
            LOG.info(event.text)
        else:
            LOG.info(type(event).__name__, extra={"event": asdict(event)})
        on_event(event)

    return receive


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
        self.streams = Streams(config.seed)
        self.metrics = Metrics(folder, config.tensorboard)
        self.trained_seconds = 0.0
        self.stopping = ""
        """Why the run is to stop; empty while it goes on."""
        self._halted = asyncio.Event()
        self._recorded = False

    async def main(self) -> RunResult:
        """Run, and record how it ended.

        Raises:
            asyncio.CancelledError: a signal stopped the run before there was a version to report.
        """
        loop = asyncio.get_running_loop()
        with SHUTDOWN.handled_by(lambda reason: loop.call_soon_threadsafe(self._stop, reason)):
            return await self._main()

    async def _main(self) -> RunResult:
        status, error = "failed", ""
        try:
            await self.unless_stopped(self._start())
            if not self.stopping:
                from .loop import Loop

                loop = await Loop.of(self)
                await loop.train()
            if not self.stopping:
                await self.unless_stopped(self.evaluator.evaluate("after", self.version.update))
            status = "stopped" if self.stopping else "finished"
            if not hasattr(self, "version"):
                raise asyncio.CancelledError
            return await asyncio.to_thread(self._result, status)
        except TurnwiseError as failure:
            error = str(failure)
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            status, error = "stopped", "interrupted"
            raise
        except OSError as failure:
            error = f"{type(failure).__name__}: {failure}"
            if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            error = f"no room left for {failure.filename or 'a file'}; free some space and run the same command again"
            raise TurnwiseError(error) from failure
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            await self._end(status, error)

    def _stop(self, reason: str) -> None:
        self.stopping = reason
        self._halted.set()

    async def unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for ``work``; if the run is to stop meanwhile, cancel ``work`` and return."""
        task = asyncio.ensure_future(work)
        halted = asyncio.ensure_future(self._halted.wait())
        try:
            await asyncio.wait({task, halted}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            halted.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()

    async def _start(self) -> None:
        """Everything up to the first update."""
        from .initial_state import begin

        origin = await begin(self)
        model = origin.model
        self.cluster = Cluster.start(
            self.config, self.database, model, self.config.rollout_control, LogFolder.of(self.folder)
        )
        self.store = RunStore(self.name, self.database, self.cluster.store_client)
        self.evaluator = Evaluator(
            self.config, self.config.horizon.longest(), self.cluster, self.store, self.metrics, self.tell
        )
        await self._record(origin)
        await self._prepare(origin)

    async def _record(self, origin: Origin) -> None:
        await self.store.create(
            config=self.config.resolved(),
            config_hash=self.config.digest(),
            kind="train",
            code_version=__version__,
            parent=self.identity.parent,
        )
        self._recorded = True
        if self.identity.resumes:
            lost = await self.store.rewind(origin.version)
            self.metrics.rewind(None if origin.version is None else origin.update)
            what = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in lost.items() if count)
            self.tell(Note(f"resuming run {self.name} at update {origin.update}: {what or 'nothing was lost'}"))
        elif self.name != self.config.name:
            self.tell(Note(f"run {self.config.name} is there already and ended; this is {self.name}"))
        for note in origin.notes:
            self.tell(Note(note))

    async def _prepare(self, origin: Origin) -> None:
        """Learner, engines, and the version training starts from; evaluation before and after the warm-up."""
        from ..learner.checkpoint_manager import Saver

        if origin.version is None:
            await refuse_unseen(self.config.environments, "train", self.config.rollout.reset_timeout_s)
        self.learner = await asyncio.to_thread(origin.make_learner)
        self.weights = origin.make_weights(self.learner)
        self.saver = Saver(
            self.folder,
            self.learner,
            self.store,
            await self.store.uid(),
            self.config.checkpoint.keep_last,
            origin.model,
            self._state,
        )
        if origin.version is None and origin.warms_up:
            before = await self.store.add_version(BEFORE_WARMUP, None)
            await self.cluster.write(self.weights)
            warming = asyncio.create_task(asyncio.to_thread(origin.warm_up, self.learner, self._halted.is_set))
            # Where the evaluation fails first, that is what is told.
            warming.add_done_callback(lambda task: None if task.cancelled() else task.exception())
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
                self.config.load_component_states(origin.state["components"])
                self.streams.load_state_dict(origin.state["streams"])
            await self.cluster.push(self.weights, self.version.id)
            if origin.version is None:
                await self.evaluator.evaluate("untrained" if self.identity.parent is None else "forked", 0)
        if origin.version is None:
            await self.saver.save(self.version.id)

    async def _first_version(self, parent: int | None) -> PolicyVersion:
        number = await self.store.add_version(0, parent)
        return PolicyVersion(self.name, number, parent, 0)

    def spent(self) -> float:
        """Share of the budget spent, 0 to 1."""
        return self.config.progress(self.version.update, self.trained_seconds)

    def decay(self) -> float:
        """Share of the learning rate's schedule that has passed, 0 to 1."""
        return self.config.lr_progress(self.version.update, self.trained_seconds)

    async def asked_to_stop(self) -> bool:
        """Whether a signal or ``turnwise runs stop`` asked for it."""
        if not self.stopping:
            requested = await self.store.is_stop_requested()
            if requested and not self.stopping:
                self.tell(Note("asked to stop: stopping after this update; the same command resumes the run"))
                self._stop("asked to stop")
        return bool(self.stopping)

    def _state(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "config": self.config.resolved(),
            "update": self.version.update,
            "version": self.version.id,
            "trained_seconds": self.trained_seconds,
            "evaluations": {name: one.json() for name, one in self.evaluator.results.items()},
            "components": self.config.component_states(),
            "streams": self.streams.state_dict(),
            "saved_at": time(),
        }

    def _result(self, status: str) -> RunResult:
        held = self.evaluator.results
        return result(self.name, status, self.version.update, held, self.database, self.folder, self.started)

    async def _end(self, status: str, error: str) -> None:
        """Record how the run ended and end its actors; what fails here does not hide why it ended."""
        try:
            if self._recorded:
                await self.store.finish(status, error[:4000])
            elif self.identity.resumes:
                await asyncio.to_thread(finish_if_running, self.database, self.name, status, error[:4000])
            if hasattr(self, "version"):
                held = self.evaluator.results
                await asyncio.to_thread(draw_curve, self.name, self.version.update, held, self.database, self.folder)
        except Exception as failure:
            if not error:
                raise
            self.tell(Note(f"the end of the run could not be recorded: {failure}"))
        finally:
            try:
                await self._close()
            except Exception as failure:
                if not error:
                    raise
                self.tell(Note(f"the run's processes did not end in order: {failure}"))

    async def _close(self) -> None:
        """End the actors; a stopped run's get ``STOPPED_CLOSE_S``, since Ray's end kills them anyway."""
        try:
            if hasattr(self, "cluster"):
                async with asyncio.timeout(STOPPED_CLOSE_S if self.stopping else None):
                    if self.cluster.keeper is not None and hasattr(self, "version"):
                        for health in await self.cluster.keeper.health():
                            self.metrics.write("sandboxes", self.version.update, health)
                    await self.cluster.close()
        except TimeoutError:
            if not self.stopping:
                raise
        finally:
            self.metrics.close()


def _row(conn: Any, name: str) -> Any:
    try:
        return queries.run_row(conn, name)
    except NotFound:
        return None
