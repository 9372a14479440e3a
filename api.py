"""The API for programs and notebooks: train a run, evaluate a policy, and read the store.

``turnwise.train``, ``turnwise.evaluate`` and ``turnwise.open_store`` are these functions; ``import turnwise`` imports
this module, and torch with it, where one of them is first used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from .store.database import Database, open_database
from .store.project import default_store
from .store.queries.run_reader import read_retried
from .trainer.config.loading import load_config, parse_config
from .trainer.config.schema import RunConfig
from .trainer.evaluation import tasks as evaluation
from .trainer.run import run
from .trainer.run.callbacks import Callback, StoppedEarly
from .trainer.run.summary import RunResult
from .trainer.telemetry.events import EvalResult, Event

P = ParamSpec("P")
T = TypeVar("T")


def train(
    config: RunConfig | Mapping[str, Any] | str | Path,
    *,
    callbacks: Sequence[Callback] = (),
    store: str | None = None,
    fork: bool = False,
    report: Callable[[Event], None] = lambda event: None,
) -> RunResult:
    """Begin or resume the run that ``config`` names, train it to its end, and return its result.

    Args:
        config: a configuration, its keys as nested mappings, or the path of a TOML file.
        callbacks: receive each update, each evaluation and the end of the run; they may stop it.
        store: URL of the store; by default that of the commands: `TURNWISE_STORE`, the `store` of the nearest
            `turnwise.toml`, or `runs/turnwise.db` in the current folder.
        fork: begin a new run from the newest checkpoint of the run of that name.
        report: receives every event, notes included, for a user interface.

    Raises:
        StoppedEarly: a callback stopped the run before it had a version to return a result of.
        TurnwiseError: the configuration is wrong, the run is refused, or it failed, also because of a callback; the
            run's row holds the error.
    """
    if isinstance(config, str | Path):
        config = load_config(config)
    elif not isinstance(config, RunConfig):
        config = parse_config(dict(config))
    try:
        return run.train(config, store_url=store or default_store(), fork=fork, report=report, callbacks=callbacks)
    except asyncio.CancelledError as error:
        raise StoppedEarly(
            f"run {config.name} was stopped before its first version; the same call begins it again"
        ) from error


def evaluate(policy: str, env: str, *, tasks: int = 100, store: str | None = None, **settings: Any) -> EvalResult:
    """Play held-out tasks of an environment with a policy, store the episodes, and return the success rate.

    Args:
        policy: ``random``, ``oracle``, the folder or hub id of a model, or the URL of an OpenAI-compatible server.
        env: the id of the environment.
        settings: those of ``turnwise.trainer.evaluation.tasks.evaluate``, such as ``split``, ``seed`` and ``options``.

    Raises:
        TurnwiseError: the policy is none of these, or it cannot play the environment.
    """
    return evaluation.evaluate(policy, env, tasks=tasks, store_url=store or default_store(), **settings)


class StoreReader:
    """Reads a store through the typed queries of ``turnwise.store.queries``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a query, such as ``read(queries.list_runs, limit=10)``.

        Raises:
            NotFound: the store has no such run or trajectory.
        """
        return read_retried(self._database, query, *args, **kwargs)


@contextmanager
def open_store(store: str | None = None) -> Iterator[StoreReader]:
    """Open the store at a URL for reading, and close it at the end of the block.

    Raises:
        StoreError: the store does not exist, has another revision, or does not respond.
    """
    database = open_database(store or default_store())
    try:
        yield StoreReader(database)
    finally:
        database.close()
