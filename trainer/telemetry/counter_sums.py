"""Sums of the counters of processes, each of which may restart or not answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any

LOG = logging.getLogger(__name__)

Read = Callable[[], Awaitable[Mapping[str, Any]]]
"""Reads the counters of one process, as they are since it started."""


class CounterSums:
    """The increments of some counters since the first answer of each process, summed over the processes.

    No sum ever falls: a process that does not answer keeps its last counts, and one that restarted adds to them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.totals: dict[str, Any] = dict.fromkeys(names, 0)
        """The sums so far, by counter."""
        self._last: dict[Hashable, Mapping[str, Any]] = {}
        """The last answer of each process."""

    def add(self, process: Hashable, counts: Mapping[str, Any]) -> None:
        """Add an answer of a process; a count that is smaller than before shows that the process was restarted."""
        before = self._last.get(process, counts)
        restarted = any(counts[name] < before[name] for name in self.totals)
        for name in self.totals:
            self.totals[name] += counts[name] - (0 if restarted else before[name])
        self._last[process] = counts

    async def read(self, processes: Mapping[Any, Read], timeout_s: float) -> dict[str, Any]:
        """Add the counts of all ``processes``, which are read at once, and return the sums.

        A process that fails or takes longer than ``timeout_s`` adds its increment at a later call.
        """

        async def read_one(process: Hashable, read: Read) -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    self.add(process, await read())
            except Exception:  # Ray raises many types for an actor that is being replaced
                LOG.warning("a process did not report its counters; the next reading adds them", exc_info=True)

        self._last = {process: counts for process, counts in self._last.items() if process in processes}
        await asyncio.gather(*(read_one(process, read) for process, read in processes.items()))
        return dict(self.totals)
