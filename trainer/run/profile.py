"""Profiles of all processes of a run during a few updates (``turnwise train --profile``).

Driver, engines, rollout workers and store writers sample the stacks of their threads (``agents.profiling``) during
at least ``UPDATES`` updates and ``SECONDS`` seconds, the waits for batches included. The learner profiles the first of
these updates by ``torch.profiler``. On a cluster each host keeps the files of its processes, as with logs.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...agents.profiling import SUFFIX, StackSampler
from ..cluster.actors import Cluster
from ..learner.backends.base import LearnerBackend
from ..telemetry.events import Event, Note

LOG = logging.getLogger(__name__)

FOLDER = "profiles"
SKIPPED = 1
"""Updates of this process before the profiled ones: the first one compiles, allocates and fills caches."""
UPDATES = 3
"""The fewest updates that are profiled."""
SECONDS = 5.0
"""The shortest profile: with a look every 10 ms, less has no stack of a process that is seldom busy."""
ANSWER_TIMEOUT_S = 30.0
"""Seconds the actors may take to write their files."""


class RunProfile:
    """Profiles the updates of this process from ``SKIPPED + 1`` on, until there is enough of them."""

    def __init__(
        self, folder: Path, cluster: Cluster, learner: LearnerBackend, report: Callable[[Event], None]
    ) -> None:
        """``folder`` is that of the run."""
        self._run_folder = folder
        self._folder = folder / FOLDER
        self._cluster = cluster
        self._learner = learner
        self._report = report
        self._sampler: StackSampler | None = None
        self._done = 0
        self._first = 0
        self._started_s = 0.0

    async def count(self, update: int) -> None:
        """Count an update that is done; start or end the profiles if their time has come."""
        self._done += 1
        if self._done == SKIPPED:
            await self._start(update + 1)
        elif self._done >= SKIPPED + UPDATES and time.monotonic() >= self._started_s + SECONDS:
            await self.stop(update)

    async def stop(self, update: int) -> None:
        """End the profiles if they were started; ``update`` is the last one that was done."""
        sampler, self._sampler = self._sampler, None
        if sampler is None:
            return
        if update < self._first:
            sampler.cancel()
            self._report(Note(f"no profile: the run ended before update {self._first}"))
            return
        try:
            await self._on_actors("stop_profile", lambda name: (str(self._folder), name))
            await asyncio.to_thread(sampler.stop, self._folder / f"driver-{os.getpid()}{SUFFIX}")
            files = sorted(path.name for path in self._folder.iterdir())
        except OSError as error:
            LOG.warning("the profile of the driver could not be written", exc_info=True)
            self._report(Note(f"the profiles in `{self._folder}` are incomplete: {error}"))
            return
        finally:
            sampler.cancel()
        self._report(Note(f"profiles of updates {self._first} to {update} are in `{self._folder}`: {', '.join(files)}"))

    def cancel(self) -> None:
        """End the profile of this process and write nothing: the run has failed."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.cancel()

    async def _start(self, first: int) -> None:
        self._first = first
        self._folder = self._run_folder / FOLDER / f"update-{first}"
        await asyncio.to_thread(self._learner.profile_next, self._folder)
        await self._on_actors("start_profile", lambda name: ())
        self._sampler = StackSampler()
        self._sampler.start()
        self._started_s = time.monotonic()

    async def _on_actors(self, method: str, arguments: Callable[[str], tuple[str, ...]]) -> None:
        """Call a method of every actor; an actor that died or does not answer has no profile."""
        calls = [asyncio.ensure_future(_call(actor, method, arguments(name))) for name, actor in self._actors()]
        if not calls:
            return
        done, _ = await asyncio.wait(calls, timeout=ANSWER_TIMEOUT_S)
        for call in calls:
            if call not in done or call.exception() is not None:
                reason = str(call.exception()) if call in done else f"no answer within {ANSWER_TIMEOUT_S:g} s"
                LOG.warning("a process could not be profiled", extra={"method": method, "reason": reason})

    def _actors(self) -> Iterator[tuple[str, Any]]:
        yield from (("engine", actor) for actor in self._cluster.engines.actors)
        yield from (("worker", actor) for actor in self._cluster.workers.actors)
        yield from (("store", writer) for writer in self._cluster.store.writers.values())


async def _call(actor: Any, method: str, arguments: tuple[str, ...]) -> None:
    await getattr(actor, method).remote(*arguments)
