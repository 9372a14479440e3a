"""A training run from start to end: identity, refusals, the lock, Ray, and a driver until one reaches the end.

Rollout and learning wait for each other only through the store's counts (``rollout.admission``) and the sweep of stale
tokens (``learner.samples``). A run ends as finished, stopped or failed. A process that is killed leaves its run
``running``. The same command resumes every run that is not finished from its newest checkpoint.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from time import monotonic

from sqlalchemy import Connection

from ...base.logs import LogFolder
from ...base.process import event_loop
from ...base.process.start import restore
from ...store import queries
from ...store.database import Database, open_database, sqlite_file
from ...store.errors import NotFound
from ...store.operations.runs import is_empty
from ...store.project import run_folder
from ...store.queries.lineage import refuse_gone
from ...store.queries.lists import RunRow
from ...store.queries.run_reader import read_retried
from ...store.run_lock import hold_run
from ...store.run_store import finish_if_running
from ...store.schema import no_of
from ...store.schema import run as run_table
from ..cluster.runtime import start_ray, stop_ray
from ..config.schema import RunConfig
from ..learner.backends.base import RankFailed, RanksLate
from ..preflight.check import check
from ..preflight.refusal import Command, Refused, Subject, refuse
from ..shutdown import SHUTDOWN
from ..telemetry.events import Event, Note
from .callbacks import Callback, Callbacks, RunEnded
from .driver import RESUMES, TORCH_MODULES, Driver
from .identity import Origin, RunIdentity, resolve_fork, resolve_run
from .summary import RunResult

LOG = logging.getLogger(__name__)

MAX_LEARNER_DEATHS = 3
"""Deaths of the learner since the same checkpoint after which the run fails."""
NOT_BEGUN = "stopping; the run has not begun, and the same command starts it (a second signal ends it at once)"


@SHUTDOWN.receiving()
def train(
    config: RunConfig,
    *,
    store_url: str,
    fork: bool | Origin = False,
    numbers: bool = True,
    report: Callable[[Event], None] = lambda event: None,
    callbacks: Sequence[Callback] = (),
) -> RunResult:
    """Begin or resume the run that ``config`` names, train it to its end, and return its result.

    In the main thread, the first of ``shutdown.SIGNALS`` stops the run; its result then has the status ``stopped``. A
    second one raises ``KeyboardInterrupt``.

    Args:
        fork: begin a new run from the newest checkpoint of the run of that name, or from the given one.
        numbers: whether a new run begins, with a number after the name, if the run of that name is finished.
        report: receives the events of the run, for a user interface.
        callbacks: receive the updates, the evaluations and the end of the run, and may stop it.

    Raises:
        TurnwiseError: the run is refused, or it failed; the run's row holds the error.
    """
    started = monotonic()
    database = _existing_store(store_url)
    try:
        identity = _identify(config, database, fork, numbers)
    except Refused as refused:
        cheap = check(Subject(config, Command.TRAIN, database), refused=True)
        raise Refused([*refused.refusals, *cheap]) from None
    subject = Subject(config, identity.command, database, run=identity.name, note=lambda text: report(Note(text)))
    refuse(check(subject))
    database = database or open_database(store_url, create=True)
    database.wait_for_outages(config.store_timeout_s)
    logs = LogFolder.of(run_folder(database, identity.name))
    report = _logged(report)
    say = partial(_note, report)
    with hold_run(database, identity.name, SHUTDOWN.abandon, say), logs.writing("driver"):
        SHUTDOWN.hint = RESUMES if identity.resumes else NOT_BEGUN
        SHUTDOWN.record = partial(finish_if_running, database, identity.name)
        if text := _beginning(config, identity):
            report(Note(text))
        parts = f"{'Ray, then ' if config.uses_ray else ''}the model{' and the engine' if config.num_engines else ''}"
        report(Note(f"starting run {identity.name}: {parts}"))
        restore()
        with ThreadPoolExecutor(1) as executor:
            importing = executor.submit(lambda: [import_module(name, __package__) for name in TORCH_MODULES])
            if config.uses_ray:
                start_ray(config.ray_address)
            else:
                SHUTDOWN.unblock()
        try:
            importing.result()
            return _drive_and_report(config, database, identity, report, started, Callbacks(callbacks))
        finally:
            stop_ray()


def _existing_store(url: str) -> Database | None:
    """Return the store of a run; None if it is a file that does not exist yet: a refused run makes none."""
    file = sqlite_file(url)
    return None if file is not None and not file.exists() else open_database(url, create=True)


def _identify(config: RunConfig, database: Database | None, fork: bool | Origin, numbers: bool = True) -> RunIdentity:
    if database is None:
        return resolve_run(config, lambda name: None, bool(fork))
    with database.read() as conn:
        find_run = partial(_find_run, conn)
        if isinstance(fork, Origin):
            identity = resolve_fork(config, find_run, fork)
        else:
            identity = resolve_run(config, find_run, fork, partial(_is_empty, conn), numbers)
        begins = not (identity.resumes and queries.checkpoints(conn, identity.name))
        if begins and identity.parent is not None and identity.parent_version is not None:
            refuse_gone(conn, queries.versions(conn, identity.parent)[identity.parent_version])
        return identity


def _is_empty(conn: Connection, name: str) -> bool:
    return is_empty(conn, no_of(run_table, name))


def _beginning(config: RunConfig, identity: RunIdentity) -> str:
    """Return which run begins under another name than that of the configuration, and why; else an empty text."""
    if identity.extends:
        return f"run {identity.name} was finished and goes on to its larger limit"
    if identity.resumes:
        return ""
    if identity.parent is not None:
        return f"forking run {identity.parent} as {identity.name}"
    is_other = identity.name != config.name
    return f"run {config.name} is finished; the new run is {identity.name}" if is_other else ""


def _drive_and_report(
    config: RunConfig,
    database: Database,
    identity: RunIdentity,
    report: Callable[[Event], None],
    started: float,
    callbacks: Callbacks,
) -> RunResult:
    """Drive the run to its end, and pass the end to the callbacks.

    Raises:
        TurnwiseError: the run failed, or a callback failed after its end.
    """
    try:
        result = _drive(config, database, identity, report, started, callbacks)
    except BaseException as error:
        status = "failed" if isinstance(error, Exception) else "stopped"
        callbacks.end(RunEnded(identity.name, status, str(error), None))
        raise
    callbacks.end(RunEnded(result.run, result.status, "", result))
    return result


def _drive(
    config: RunConfig,
    database: Database,
    identity: RunIdentity,
    report: Callable[[Event], None],
    started: float,
    callbacks: Callbacks,
) -> RunResult:
    """Drive the run to its end; if ranks of the learner die, replace the learner from the last checkpoint.

    Without a checkpoint, the run begins again. Ranks that did not even start end the run.

    Raises:
        TurnwiseError: the run failed, or its learner died too often since the last checkpoint.
    """
    deaths: Counter[str] = Counter()
    while True:
        try:
            return event_loop.run(Driver(config, database, identity, report, started, callbacks).main())
        except RankFailed as failure:
            if isinstance(failure, RanksLate):
                raise
            saved = read_retried(database, queries.latest_checkpoint, identity.name)
            stop_requested = read_retried(database, queries.find_run, identity.name).stop_requested
            since = "the start of the run" if saved is None else f"the checkpoint of update {saved.update}"
            if stop_requested or SHUTDOWN.reason:
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


def _note(report: Callable[[Event], None], text: str) -> None:
    report(Note(text))


def _find_run(conn: Connection, name: str) -> RunRow | None:
    try:
        return queries.find_run(conn, name)
    except NotFound:
        return None
