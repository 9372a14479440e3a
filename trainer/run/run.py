"""A training run from start to end: identity, initial state, preparation, training, last evaluation, summary.

Rollout and learning wait for each other only through the store's counts (``rollout.admission``) and the sweep of stale
tokens (``learner.staleness``). A run ends as finished, stopped or failed. A process that is killed leaves its run
``running``. The same command resumes every run that is not finished from its newest checkpoint.

Modules that import torch are imported while Ray starts, because each takes seconds.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from ... import __version__
from ...envs.registry import spec
from ...envs.sandboxes import refuse_missing_images
from ...errors import TurnwiseError
from ...logs import LogFolder
from ...process.start import restore
from ...store import queries
from ...store.database import Database, open_database
from ...store.errors import Fenced, NotFound
from ...store.run_lock import hold_run, run_folder
from ...store.run_store import RunStore, finish_if_running
from ..algorithms.random_streams import Streams
from ..cluster.actors import Cluster
from ..cluster.runtime import check_store_reach, start_ray, stop_ray
from ..config.schema import RunConfig
from ..context import RunContext
from ..evaluation.in_run import Evaluator
from ..learner.errors import RankFailed, RanksLate
from ..planning.devices import refuse_missing_devices
from ..planning.refusal import refuse_oversized
from ..rollout.trainable import refuse_untrainable
from ..shutdown import SHUTDOWN
from ..telemetry.code_identity import git_revision, package_versions
from ..telemetry.events import Event, Note
from ..telemetry.metrics import Metrics
from ..warmup.vocabulary import closed_vocabulary
from .identity import RunIdentity, resolve_run
from .offline.batches import offline_source
from .offline.trainable import refuse_forgeable
from .state import RunState
from .summary import RunResult, draw_curve, summarize

if TYPE_CHECKING:
    from .initial_state import InitialState
    from .preparation import RunParts

LOG = logging.getLogger(__name__)

TORCH_MODULES = (".initial_state", ".preparation", ".loop", ".offline.loop")
"""Modules of this package that import torch."""
STOPPED_CLOSE_TIMEOUT_S = 3.0
"""Seconds the actors of a stopped run get to close before they are killed."""
MAX_LEARNER_DEATHS = 3
"""Deaths of the learner since the same checkpoint after which the run fails."""
RESUMES = "stopping; the same command resumes the run (a second signal ends it at once)"
NOT_BEGUN = "stopping; the run has not begun, and the same command starts it (a second signal ends it at once)"
ERROR_MAX_CHARS = 4000
"""Length of the error in the run's row."""


@SHUTDOWN.receiving()
def train(
    config: RunConfig, *, store_url: str, fork: bool = False, report: Callable[[Event], None] = lambda event: None
) -> RunResult:
    """Begin or resume the run that ``config`` names, train it to its end, and return its result.

    In the main thread, the first SIGINT or SIGTERM stops the run; its result then has the status ``stopped``. A second
    one raises ``KeyboardInterrupt``.

    Args:
        fork: begin a new run from the newest checkpoint of the run of that name.
        report: receives the events of the run, for a user interface.

    Raises:
        TurnwiseError: the run is refused, or it failed; the run's row holds the error.
    """
    started = monotonic()
    for one in config.environments:
        spec(one.id)
    refuse_missing_devices(config)
    if not config.is_offline:
        here = config.ray_address is None
        refuse_missing_images([one.id for one in config.environments], config.sandboxes, here=here)
        asyncio.run(refuse_untrainable(config.environments, config.rollout.reset_timeout_s))
    database = open_database(store_url, create=True)
    with database.read() as conn:
        identity = resolve_run(config, partial(_find_run, conn), fork)
    # Refused here, because Ray and the imports below take seconds.
    if not identity.resumes and identity.parent is None:
        if (model := config.model.folder()) is None:
            closed_vocabulary(config.environments)
        else:
            from ..preflight.model import refuse_untrainable_model

            refuse_untrainable_model(config, model)
    if config.is_offline:
        for reason in asyncio.run(refuse_forgeable(config, database, offline_source(config, database))):
            report(Note(f"not checked whether an agent can forge the rewards: {reason}"))
    if not identity.resumes:
        refuse_oversized(config)
    logs = LogFolder.of(run_folder(database, identity.name))
    with hold_run(database, identity.name, SHUTDOWN.abandon), logs.writing("driver"):
        SHUTDOWN.hint = RESUMES if identity.resumes else NOT_BEGUN
        SHUTDOWN.record = partial(finish_if_running, database, identity.name)
        report = _logged(report)
        uses_ray = not config.is_offline or config.learner.backend == "fsdp"
        parts = ["Ray, then the model" if uses_ray else "the model", *([] if config.is_offline else ["the engine"])]
        report(Note(f"starting run {identity.name}: {' and '.join(parts)}"))
        restore()
        with ThreadPoolExecutor(1) as executor:
            importing = executor.submit(lambda: [import_module(name, __package__) for name in TORCH_MODULES])
            if uses_ray:
                start_ray(config.ray_address)
            else:
                SHUTDOWN.unblock()
        try:
            if not config.is_offline:
                check_store_reach(database)
            importing.result()
            return _drive(config, database, identity, report, started)
        finally:
            stop_ray()


def _drive(
    config: RunConfig, database: Database, identity: RunIdentity, report: Callable[[Event], None], started: float
) -> RunResult:
    """Drive the run to its end; if ranks of the learner die, replace the learner from the last checkpoint.

    Without a checkpoint, the run begins again. Ranks that did not even start end the run.

    Raises:
        TurnwiseError: the run failed, or its learner died too often since the last checkpoint.
    """
    deaths: Counter[str] = Counter()
    while True:
        try:
            # Components change during a run, and the next one loads their states from the checkpoint.
            return asyncio.run(Run(config.model_copy(deep=True), database, identity, report, started).main())
        except RankFailed as failure:
            if isinstance(failure, RanksLate):
                raise
            with database.read() as conn:
                saved = queries.latest_checkpoint(conn, identity.name)
                asked = queries.run_row(conn, identity.name)["stop_requested"]
            since = "the start of the run" if saved is None else f"the checkpoint of update {saved.update}"
            if asked or SHUTDOWN.reason:
                raise RankFailed(
                    f"{failure}; the run was to stop: the same command resumes it from {since}"
                ) from failure
            deaths[since] += 1
            if deaths[since] >= MAX_LEARNER_DEATHS:
                raise RankFailed(
                    f"{failure}; the learner died {MAX_LEARNER_DEATHS} times since {since}: look for its cause in "
                    "the log of the rank and in the kernel's (often too little memory: more ranks, or a smaller "
                    "`learner.max_tokens_per_micro_batch`), then run the same command to resume"
                ) from failure
            report(Note(f"{failure}; replacing the learner from {since}"))
            identity = replace(identity, resumes=True)


def _logged(report: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a reporter that logs each event before it passes the event on."""

    def receive(event: Event) -> None:
        if isinstance(event, Note):
            LOG.info(event.text)
        else:
            LOG.info(type(event).__name__, extra={"event": asdict(event)})
        report(event)

    return receive


@dataclass(frozen=True, slots=True)
class _Session:
    """The parts of a run that exist from the start of its actors to its end."""

    context: RunContext
    cluster: Cluster
    evaluator: Evaluator


class Run:
    """The driver of one run, in one event loop."""

    def __init__(
        self,
        config: RunConfig,
        database: Database,
        identity: RunIdentity,
        report: Callable[[Event], None],
        started: float,
    ) -> None:
        """``started`` is when the command started, on the monotonic clock."""
        self._config = config
        self._database = database
        self._identity = identity
        self._report = report
        self._started = started
        self._folder = run_folder(database, identity.name)
        self._metrics = Metrics(self._folder, config.tensorboard)
        self._state = RunState()
        self._session: _Session | None = None
        self._recorded = False
        """Whether the run has a row that this process began or resumed."""
        self._fenced = False
        """Whether another driver has taken over the run; its row is no longer this process's to write."""

    async def main(self) -> RunResult:
        """Run, record how the run ended, and return its result.

        Raises:
            TurnwiseError: the run failed.
            asyncio.CancelledError: a signal stopped the run before it had a version.
        """
        loop, work = asyncio.get_running_loop(), asyncio.ensure_future(self._main())
        stop = self._state.stop

        def fail(error: str) -> None:
            stop.request(error)
            work.cancel()

        with SHUTDOWN.handled_by(
            lambda reason: loop.call_soon_threadsafe(stop.request, reason),
            lambda error: loop.call_soon_threadsafe(fail, error),
        ):
            return await work

    async def _main(self) -> RunResult:
        status, error = "failed", ""
        try:
            result = await self._run()
            status = result.status
            return result
        except TurnwiseError as failure:
            error = str(failure)
            self._fenced = isinstance(failure, Fenced)
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
            await self._end(status, error[:ERROR_MAX_CHARS])

    async def _run(self) -> RunResult:
        from .loop import TrainingLoop
        from .offline.loop import OfflineLoop

        state = self._state
        parts = await state.stop.cancel_on_request(self._prepare())
        session = self._session
        if session is None or state.current is None:
            raise asyncio.CancelledError
        try:
            if parts is not None and not state.stop:
                loop = OfflineLoop if self._config.is_offline else TrainingLoop
                training = await loop.create(session.context, state, parts)
                try:
                    await training.train()
                finally:
                    training.cancel_profile()
            if not state.stop:
                await state.stop.cancel_on_request(session.evaluator.evaluate("after", state.version.update))
        finally:
            if parts is not None:
                await asyncio.to_thread(parts.learner.close)
        status = "stopped" if state.stop else "finished"
        return await asyncio.to_thread(
            summarize, session.context, state.version.update, session.evaluator.results, status, self._started
        )

    async def _prepare(self) -> RunParts:
        """Start the actors, record the run, and return its parts when the first version is served."""
        from .initial_state import initial_state
        from .preparation import Preparation

        config, database, name = self._config, self._database, self._identity.name
        initial = await asyncio.to_thread(initial_state, config, self._identity, database, self._folder)
        if config.is_offline:
            cluster = Cluster.offline(database)
        else:
            cluster = Cluster.start(config, database, initial.model, LogFolder.of(self._folder))
        context = RunContext(
            config=config,
            database=database,
            store=RunStore(name, database, cluster.store.client),
            folder=self._folder,
            streams=Streams(config.seed),
            metrics=self._metrics,
            report=self._report,
        )
        evaluator = Evaluator(context, cluster)
        self._session = _Session(context, cluster, evaluator)
        await self._record(context, initial)
        return await Preparation(context, self._state, initial, cluster, evaluator).prepare(self._started)

    async def _record(self, context: RunContext, initial: InitialState) -> None:
        """Begin or resume the run in the store."""
        await context.store.create(
            config=self._config.resolved(),
            config_hash=self._config.digest(),
            kind="train",
            code_version=__version__,
            parent=self._identity.parent,
            git_revision=await asyncio.to_thread(git_revision),
            packages=package_versions(),
        )
        self._recorded = True
        SHUTDOWN.hint = RESUMES
        SHUTDOWN.record = partial(finish_if_running, self._database, context.name, epoch=context.store.epoch)
        if self._identity.resumes:
            lost = await context.store.rewind(initial.version)
            context.metrics.rewind(initial.update if initial.resumes else None)
            counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in lost.items() if count)
            text = f"resuming run {context.name} at update {initial.update}: {counts or 'nothing was lost'}"
            self._report(Note(text))
        elif context.name != self._config.name:
            self._report(Note(f"run {self._config.name} already exists; starting {context.name}"))
        for note in initial.notes:
            self._report(Note(note))

    async def _end(self, status: str, error: str) -> None:
        """Record how the run ended and end its actors. Failures here do not replace the error that ended the run."""
        try:
            await self._finish(status, error)
        except Exception as failure:
            if not error:
                raise
            self._report(Note(f"the end of the run could not be recorded: {failure}"))
        finally:
            try:
                await self._close()
            except Exception as failure:
                if not error:
                    raise
                self._report(Note(f"the processes of the run could not be ended cleanly: {failure}"))

    async def _finish(self, status: str, error: str) -> None:
        """Write the status of the run into its row, and draw its learning curve."""
        if SHUTDOWN.failure or self._fenced:
            return  # recorded already, and the actors do not answer; or no longer ours to record
        session, state = self._session, self._state
        if session is not None and self._recorded:
            await session.context.store.finish(status, error)
            if status == "finished":
                SHUTDOWN.hint = "the run has finished; closing its processes"
        elif self._identity.resumes:
            await asyncio.to_thread(finish_if_running, self._database, self._identity.name, status, error)
        if session is not None and state.current is not None:
            evaluations = session.evaluator.results
            await asyncio.to_thread(draw_curve, session.context, state.current.update, evaluations)

    async def _close(self) -> None:
        """End the actors; those of a stopped run get ``STOPPED_CLOSE_TIMEOUT_S``, since Ray's end kills them anyway."""
        session, state = self._session, self._state
        try:
            if session is not None:
                async with asyncio.timeout(STOPPED_CLOSE_TIMEOUT_S if state.stop else None):
                    sandboxes = session.cluster.sandboxes
                    if sandboxes is not None and state.current is not None:
                        for health in await sandboxes.health():
                            self._metrics.write("sandboxes", state.current.update, health)
                    await session.cluster.close()
        except TimeoutError:
            if not state.stop:
                raise
        finally:
            self._metrics.close()


def _find_run(conn: Connection, name: str) -> Any:
    try:
        return queries.run_row(conn, name)
    except NotFound:
        return None
