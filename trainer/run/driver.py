"""The driver of one run: prepare it, train, evaluate, and record how it ended."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ... import __version__
from ...base.logs import LogFolder
from ...errors import FAILED, TurnwiseError
from ...store.database import Database
from ...store.errors import Fenced
from ...store.project import run_folder
from ...store.run_store import RunStore, finish_if_running
from ..algorithms.algorithm_set import AlgorithmSet
from ..algorithms.random_streams import Streams
from ..cluster.actors import Cluster
from ..config.schema import RunConfig
from ..context import RunContext
from ..evaluation.in_run import Evaluator
from ..preflight.refusal import Refused
from ..shutdown import SHUTDOWN
from ..telemetry.code_identity import git_revision, package_versions
from ..telemetry.events import Event, Note
from ..telemetry.metrics import Metrics
from ..telemetry.trackers.base import TrackedRun
from .callbacks import Callbacks
from .identity import RunIdentity
from .state import RunState
from .summary import RunResult, draw_curve, summarize

if TYPE_CHECKING:
    from .initial_state import InitialState
    from .preparation import RunParts

TORCH_MODULES = (".initial_state", ".preparation", ".loop", ".played_groups", ".stored_groups")
"""Modules of this package that import torch, which takes seconds."""
STOPPED_CLOSE_TIMEOUT_S = 3.0
"""Seconds the actors of a stopped run get to close before they are killed."""
LAST_STEPS_S = 1.0
"""Seconds kept between the end of the trackers and the forced exit after a signal."""
RESUMES = "stopping; the same command resumes the run (a second signal ends it at once)"
ERROR_MAX_CHARS = 4000
"""Length of the error in the run's row."""


@dataclass(frozen=True, slots=True)
class _Session:
    """The parts of a run that exist from the start of its actors to its end."""

    context: RunContext
    cluster: Cluster
    evaluator: Evaluator


class Driver:
    """The driver of one run, in one event loop."""

    def __init__(
        self,
        config: RunConfig,
        database: Database,
        identity: RunIdentity,
        report: Callable[[Event], None],
        started: float,
        callbacks: Callbacks,
    ) -> None:
        """``started`` is when the command started, on the monotonic clock."""
        self._config = config
        self._database = database
        self._identity = identity
        self._report = report
        self._callbacks = callbacks
        self._started = started
        self._folder = run_folder(database, identity.name)
        self._metrics = Metrics(self._folder)
        self._state = RunState()
        self._session: _Session | None = None
        self._trains = False
        self._recorded = False
        """Whether the run has a row that this process began or resumed."""
        self._fenced = False
        """Whether another driver has taken over the run; its row is no longer this process's to write."""

    async def main(self) -> RunResult:
        """Run, record how the run ended, and return its result.

        Raises:
            TurnwiseError: the run failed.
            asyncio.CancelledError: a signal or a callback stopped the run before it had a version.
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
            if self._recorded and not isinstance(failure, Refused):
                failure.exit_code = FAILED
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
            full = TurnwiseError(error)
            full.exit_code = FAILED
            raise full from failure
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            await self._end(status, error[:ERROR_MAX_CHARS])

    async def _run(self) -> RunResult:
        from .loop import TrainingLoop
        from .played_groups import PlayedGroups
        from .stored_groups import StoredGroups

        state = self._state
        parts = await state.stop.cancel_on_request(self._prepare())
        session = self._session
        if session is None or state.current is None:
            raise asyncio.CancelledError
        status = "stopped"
        try:
            if parts is not None and not state.stop:
                kind = PlayedGroups if self._config.offline.run is None else StoredGroups
                source = await kind.open(session.context, state, parts)
                self._trains = True
                await TrainingLoop(session.context, state, parts, source).train()
            if not state.stop:
                status = await state.stop.cancel_on_request(self._evaluate_last(session)) or status
        finally:
            if parts is not None:
                await asyncio.to_thread(parts.learner.close)
        return await asyncio.to_thread(
            summarize, session.context, state.version.update, session.evaluator.results, status, self._started
        )

    async def _evaluate_last(self, session: _Session) -> str:
        """Evaluate the trained policy; with that, the run is finished, unless a callback ended it before its limit."""
        state = self._state
        is_over = not state.ends_early or self._config.progress(state.version.update, state.trained_s) >= 1.0
        await session.evaluator.evaluate("after", state.version.update)
        return "finished" if is_over else "stopped"

    async def _prepare(self) -> RunParts:
        """Start the actors, record the run, and return its parts when the first version is served."""
        from .initial_state import initial_state
        from .preparation import Preparation

        config, database, name = self._config, self._database, self._identity.name
        initial = await asyncio.to_thread(initial_state, config, self._identity, database, self._folder)
        logs, note = LogFolder.of(self._folder), lambda text: self._report(Note(text))
        cluster = Cluster.start(config, database, initial.model, logs, note)
        context = RunContext(
            config=config,
            algorithms=AlgorithmSet.of(config),
            database=database,
            store=RunStore(name, database, cluster.store.client),
            folder=self._folder,
            streams=Streams(config.seed),
            metrics=self._metrics,
            report=self._receive,
        )
        evaluator = Evaluator(context, cluster)
        self._session = _Session(context, cluster, evaluator)
        await self._record(context, initial)
        await self._start_trackers(context, initial)
        return await Preparation(context, self._state, initial, cluster, evaluator).prepare(self._started)

    async def _record(self, context: RunContext, initial: InitialState) -> None:
        """Begin or resume the run in the store."""
        await context.store.create(
            config=self._config.resolved(),
            config_hash=self._config.digest(),
            kind="train",
            code_version=__version__,
            parent=self._identity.parent,
            parent_version=initial.parent_version,
            git_revision=await asyncio.to_thread(git_revision),
            packages=package_versions(),
            after_update=initial.update,
            extends=self._identity.extends,
        )
        self._recorded = True
        SHUTDOWN.hint = RESUMES
        SHUTDOWN.record = partial(finish_if_running, self._database, context.name, epoch=context.store.epoch)
        if self._identity.resumes:
            lost = await context.store.rewind(initial.version)
            context.metrics.rewind(initial.update if initial.resumes else None)
            counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in lost.items() if count)
            text = f"resuming run {context.name} at update {initial.update}: {counts or 'nothing was lost'}"
            if not initial.resumes:
                text = f"run {context.name} has no checkpoint yet, and begins again"
            self._report(Note(text))
        for note in initial.notes:
            self._report(Note(note))

    def _receive(self, event: Event) -> None:
        """Pass an event to the user interface, and to the callbacks, which may stop the run."""
        self._report(event)
        end_early = partial(setattr, self._state, "ends_early")
        self._callbacks.receive(event, end_early if self._trains else self._state.stop.request)

    async def _start_trackers(self, context: RunContext, initial: InitialState) -> None:
        """Start the trackers of the run."""
        repeated = initial.update + 1 if initial.resumes else 0
        run = TrackedRun(
            name=context.name,
            uid=f"{context.name}-{await context.store.uid()}",
            folder=str(context.folder.resolve()),
            resumed_from=repeated if self._identity.resumes else None,
        )
        context.metrics.start_trackers(
            self._config.trackers, run, self._config.resolved(), lambda text: self._report(Note(text))
        )

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
                await self._close(status)
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
            await asyncio.to_thread(draw_curve, session.context)

    async def _close(self, status: str) -> None:
        """End the trackers and the actors.

        The actors of a stopped run get ``STOPPED_CLOSE_TIMEOUT_S``, since the end of Ray kills them anyway. After a
        signal, the trackers end before the forced exit.
        """
        session, state = self._session, self._state
        try:
            if session is not None:
                async with asyncio.timeout(STOPPED_CLOSE_TIMEOUT_S if state.stop else None):
                    sandboxes = session.cluster.sandboxes
                    if sandboxes is not None and state.current is not None:
                        for health in await sandboxes.health():
                            self._metrics.write("sandboxes", state.current.update, health)
                    self._metrics.finish(status)
                    await session.cluster.close()
        except TimeoutError:
            if not state.stop:
                raise
        finally:
            self._metrics.finish(status)
            await asyncio.to_thread(self._metrics.close, max(SHUTDOWN.left_s() - LAST_STEPS_S, 0.0))
