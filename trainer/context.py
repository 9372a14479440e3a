"""The frozen context that all parts of a run share; ``run.state.RunState`` holds the mutable state."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..store.database import Database
from ..store.run_store import RunStore
from .algorithms.algorithm_set import AlgorithmSet
from .algorithms.random_streams import Streams
from .config.schema import RunConfig
from .telemetry.events import Event
from .telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run: its configuration, its place in the store and on disk, and its outputs."""

    config: RunConfig
    algorithms: AlgorithmSet
    """The components of the run, which learn."""
    database: Database
    store: RunStore
    """Typed writes and reads of this run in ``database``."""
    folder: Path
    """Model, checkpoints and metrics of the run."""
    streams: Streams
    """Random streams, one per component."""
    metrics: Metrics
    report: Callable[[Event], None]
    """Pass an event to the user interface."""

    @property
    def name(self) -> str:
        """Name of the run in the store: ``config.name``, with a number if a run of that name finished or was forked."""
        return self.store.run
