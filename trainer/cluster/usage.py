"""The seconds in which the actors of a run were busy, and the fraction of the time in which its parts compute."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ..telemetry.counter_sums import CounterSums
from .actors import Cluster

ANSWER_TIMEOUT_S = 10.0
"""Seconds in which a rollout worker or a store writer must answer; else the next reading counts its seconds."""


class Busy(NamedTuple):
    """The work of one part of a run so far."""

    seconds: float
    """Seconds in which its processes were busy, summed over them; never falls."""
    processes: int


class ClusterUsage:
    """Reads the busy seconds of the parts of a cluster, with one call per actor."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._workers = CounterSums(("cpu_s", "slot_s"))
        self._writers = CounterSums(("cpu_s",))

    async def read(self) -> dict[str, Busy]:
        """Return the seconds since the first reading, by part; an actor that does not answer adds them later.

        ``slot`` is the time in which a rollout worker's slots for episodes were held, as a mean over its slots.
        """
        engines, workers = self._cluster.engines, self._cluster.workers.actors
        writers = list(self._cluster.store.writers.values())
        engine, worker, writer = await asyncio.gather(
            engines.usage(),
            self._workers.read({worker: worker.usage.remote for worker in workers}, ANSWER_TIMEOUT_S),
            self._writers.read({writer: writer.usage.remote for writer in writers}, ANSWER_TIMEOUT_S),
        )
        return {
            "engine": Busy(engine["busy_s"], len(engines.actors)),
            "worker": Busy(worker["cpu_s"], len(workers)),
            "slot": Busy(worker["slot_s"], len(workers)),
            "writer": Busy(writer["cpu_s"], len(writers)),
        }


class Utilization:
    """Busy fractions of learner, engines and other parts between two updates."""

    def __init__(self, parts: Mapping[str, Busy]) -> None:
        """``parts``: the work so far, by part."""
        self._parts = parts

    def restart(self, parts: Mapping[str, Busy]) -> None:
        """Leave out the work since the last update, which was not for training."""
        self._parts = parts

    def since_last(self, parts: Mapping[str, Busy], learner_s: float, seconds: float) -> dict[str, float]:
        """Return the fractions of the last ``seconds``, by metric; ``docs/guide/metrics.md`` explains each.

        Args:
            parts: the work so far, by part.
            learner_s: seconds in which the learner assembled and trained.
        """
        before, self._parts = self._parts, parts
        fractions = {"learner_busy_fraction": learner_s / seconds}
        for part, (busy_s, processes) in parts.items():
            fractions[f"{part}_busy_fraction"] = (busy_s - before[part].seconds) / (seconds * max(1, processes))
        return {name: min(1.0, fraction) for name, fraction in fractions.items()}
