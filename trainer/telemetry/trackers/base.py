"""The protocol of a tracker, and trackers by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Protocol, runtime_checkable

from ....base.process.user_code import imported
from ....errors import TurnwiseError, suggestion

INTERNAL = {"base", "thread"}
"""The modules of this folder that define no tracker."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run whose metrics a tracker receives."""

    name: str
    uid: str
    """The name and the uid of the run: differs from that of every other run, in other stores too; a resumed run keeps
    it."""
    folder: str
    """The folder of the run."""
    resumed_from: int | None = None
    """The first update that a resumed run repeats: what was logged from it on is abandoned. None for a new run.
    A tracker that cannot hide it shows these updates twice, the valid values last."""


@runtime_checkable
class Tracker(Protocol):
    """Receives the metrics of one run, in its own thread. Every method may block, and may raise."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Begin or continue ``run``, whose resolved configuration is ``config``, without secrets."""

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Record the numbers of one record of ``metrics.jsonl``; their names are ``<kind>/<name>``."""

    def finish(self, status: str) -> None:
        """End the run as ``finished``, ``stopped`` or ``failed``, and send what is not sent yet."""


def tracker_names() -> list[str]:
    """Return the names of the trackers of this folder, sorted, without importing them."""
    return sorted(found.name for found in iter_modules([str(Path(__file__).parent)]) if found.name not in INTERNAL)


def check_name(name: str) -> str:
    """Return ``name``, which is that of a tracker, or ``pkg.module:Class``.

    Raises:
        ValueError: no tracker has this name.
    """
    if ":" not in name and name not in (known := tracker_names()):
        raise ValueError(f"no tracker is called `{name}`{suggestion(name, known)}")
    return name


def tracker_class(name: str) -> type[Tracker]:
    """Return the class of a tracker.

    Raises:
        TurnwiseError: it cannot be imported, or it lacks a method of a tracker.
    """
    try:
        (tracker,) = [imported(name)] if ":" in name else _classes_of(import_module(f"{__package__}.{name}"))
    except ValueError as error:
        raise TurnwiseError(f"the tracker {error}") from error
    if not (inspect.isclass(tracker) and issubclass(tracker, Tracker)):
        raise TurnwiseError(f"`{name}` is not a tracker: it needs the methods `start`, `log` and `finish`")
    return tracker


def _classes_of(module: Any) -> list[Any]:
    return [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]


def missing_package(name: str) -> str:
    """Return the package that a tracker imports and that is not installed; empty if nothing is missing.

    Raises:
        TurnwiseError: the tracker cannot be imported.
    """
    package: str = "" if ":" in name else import_module(f"{__package__}.{name}").PACKAGE
    tracker_class(name)
    return "" if not package or find_spec(package) else package


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record of ``metrics.jsonl`` as ``<kind>/<name>``; those of a table as
    ``<kind>/<table>/<name>``.
    """
    kind = record["kind"]
    return dict(_flat(kind, {name: value for name, value in record.items() if name not in ("kind", "update")}))


def _flat(prefix: str, table: Mapping[str, Any]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            found += _flat(f"{prefix}/{name}", value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((f"{prefix}/{name}", value))
    return found
