"""Seconds in which the actors of a run were busy."""

import asyncio

from ..telemetry.counter_sums import CounterSums
from ..telemetry.utilization import Busy
from .actors import Cluster

ANSWER_TIMEOUT_S = 10.0
"""Seconds in which a rollout worker or a store writer must answer; else the next reading counts its seconds."""


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
            self._workers.read({one: one.usage.remote for one in workers}, ANSWER_TIMEOUT_S),
            self._writers.read({one: one.usage.remote for one in writers}, ANSWER_TIMEOUT_S),
        )
        return {
            "engine": Busy(engine["busy_s"], len(engines.actors)),
            "worker": Busy(worker["cpu_s"], len(workers)),
            "slot": Busy(worker["slot_s"], len(workers)),
            "writer": Busy(writer["cpu_s"], len(writers)),
        }
