"""A discrete-event simulation of a training run: rollouts, store, driver, learner and weight transport.

* An episode takes a sandbox. Each turn is served by its rollout worker, then sampled by its engine, then the
  environment steps; the turn's rows pass the writer of the worker's node and the database. The episode ends when all of
  its rows are committed.
* A closed group is scored by the driver, and is ready then. Admission is the run's (``trainer.rollout.admission``).
* The training loop leases a batch, the driver assembles it, the ranks train, and the engines load the weights, a number
  of them at once; each is paused meanwhile. No group opens until the last engine has loaded them. The first prompt of
  an episode after an update is computed whole.
* Left out: failures, starts of sandboxes, checkpoints, evaluations, filtered groups, and stale tokens.
"""

import heapq
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from turnwise.benchmarks.parts.delayed_site import SIGMA, SLOW_FACTOR, SLOW_SHARE
from turnwise.benchmarks.parts.scale.inputs import Assumptions, Costs, Size
from turnwise.benchmarks.parts.scale.stations import Engine, Queue
from turnwise.records import GroupState
from turnwise.trainer.rollout.admission import capacity

MAX_STALENESS = 2
WARM_UP_UPDATES = 4
"""Updates before the measurement."""
BYTES_PER_PARAMETER = 4


@dataclass(slots=True)
class _Group:
    running: int


@dataclass(slots=True)
class _Episode:
    group: _Group
    worker: int
    engine: int
    factor: float
    """Slowness of the environment's steps."""
    left: int
    """Turns to play."""
    context: float = 0.0
    version: int = -1
    """Version of the engine at the last turn."""
    began: float = 0.0
    unwritten: int = 0
    """Turns whose rows are not committed."""


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a simulated run, over the measured updates."""

    turns_per_s: float
    updates_per_hour: float
    utilization: dict[str, float]
    """Busy share by station. ``learner`` and ``weights`` are parts of ``training loop``, as is the assembly."""


@dataclass(slots=True)
class _Loop:
    """The training loop's seconds, by what it does."""

    updates: int = 0
    assembly_s: float = 0.0
    learner_s: float = 0.0
    weights_s: float = 0.0
    leased: int = 0
    began: float = 0.0
    is_training: bool = False


class Simulation:
    """One run. ``run`` returns its figures."""

    def __init__(
        self, size: Size, costs: Costs, assumed: Assumptions, *, engines_at_once: int = 1, seed: int = 0
    ) -> None:
        """``engines_at_once`` engines load new weights at the same time, in the time that one takes."""
        self._size, self._costs, self._assumed = size, costs, assumed
        self._engines_at_once = engines_at_once
        self._random = random.Random(seed)  # noqa: S311 - a seeded simulation
        self._location = math.log(assumed.step_s) - SIGMA**2 / 2 - math.log1p(SLOW_SHARE * (SLOW_FACTOR - 1))
        self._turns = round(costs.turns_per_episode)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._driver, self._database = Queue(), Queue(assumed.database_cores)
        self._workers = [Queue() for _ in range(size.workers)]
        self._writers = [Queue() for _ in range(size.nodes)]
        self._engines = [Engine(assumed.engine_tokens_per_s, assumed.request_tokens_per_s) for _ in range(size.engines)]
        self._valid = [0] * size.engines
        """Of each engine, the number of its valid event: a start or an end makes the one before void."""
        self._versions = [0] * size.engines
        self._counts: Counter[GroupState] = Counter()
        self._waiting: deque[_Group] = deque()
        """The groups of the episodes that wait for a sandbox."""
        self._free_sandboxes = size.sandboxes
        self._next_worker = self._next_engine = 0
        self._sandboxes_s = 0.0
        """Seconds of the ended episodes, over all sandboxes."""
        self._paused = False
        self._loop = _Loop()

    def run(self, updates: int) -> Result:
        """Simulate the warm-up and then ``updates`` updates."""
        self._fill()
        self._until(WARM_UP_UPDATES)
        start, before = self._now, self._busy()
        self._until(WARM_UP_UPDATES + updates)
        return self._result(updates, self._now - start, before)

    def _until(self, updates: int) -> None:
        while self._loop.updates < updates:
            self._now, _, handle, arguments = heapq.heappop(self._events)
            handle(*arguments)

    def _at(self, time: float, handle: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), handle, arguments))

    # Rollouts

    def _fill(self) -> None:
        if self._paused:
            return
        size = self._size
        room = capacity(
            self._counts,
            max_concurrent_groups=size.max_concurrent_groups,
            max_staleness=MAX_STALENESS,
            groups_per_batch=size.groups_per_batch,
        )
        self._counts[GroupState.OPEN] += room
        for _ in range(room):
            group = _Group(size.group_size)
            self._waiting.extend([group] * size.group_size)
        self._start_episodes()

    def _start_episodes(self) -> None:
        size = self._size
        while self._free_sandboxes and self._waiting:
            self._free_sandboxes -= 1
            self._next_worker = (self._next_worker + 1) % size.workers
            self._next_engine = (self._next_engine + 1) % size.engines
            factor = SLOW_FACTOR if self._random.random() < SLOW_SHARE else 1.0
            group = self._waiting.popleft()
            episode = _Episode(group, self._next_worker, self._next_engine, factor, self._turns, began=self._now)
            self._turn(episode)

    def _turn(self, episode: _Episode) -> None:
        served = self._workers[episode.worker].serve(self._now, self._costs.worker_s_per_turn)
        self._at(served, self._sample, episode)

    def _sample(self, episode: _Episode) -> None:
        costs, assumed, engine = self._costs, self._assumed, episode.engine
        prompt = costs.observed_tokens_per_turn
        if episode.version != self._versions[engine]:
            prompt += episode.context
            episode.version = self._versions[engine]
        episode.context += costs.tokens_per_turn
        work = costs.sampled_tokens_per_turn + prompt * assumed.engine_tokens_per_s / assumed.prompt_tokens_per_s
        self._engines[engine].start(self._now, work, episode)
        self._schedule(engine)

    def _schedule(self, engine: int) -> None:
        self._valid[engine] += 1
        if (end := self._engines[engine].next_end()) is not None:
            self._at(end, self._sampled, engine, self._valid[engine])

    def _sampled(self, engine: int, number: int) -> None:
        if number != self._valid[engine]:
            return
        episode = self._engines[engine].finish(self._now)
        self._schedule(engine)
        step_s = episode.factor * self._random.lognormvariate(self._location, SIGMA)
        self._at(self._now + step_s, self._stepped, episode)

    def _stepped(self, episode: _Episode) -> None:
        episode.left -= 1
        episode.unwritten += 1
        node = episode.worker % self._size.nodes
        self._at(self._writers[node].serve(self._now, self._costs.writer_s_per_turn), self._written, episode)
        if episode.left:
            self._turn(episode)

    def _written(self, episode: _Episode) -> None:
        self._at(self._database.serve(self._now, self._costs.database_s_per_turn), self._committed, episode)

    def _committed(self, episode: _Episode) -> None:
        episode.unwritten -= 1
        if episode.left or episode.unwritten:
            return
        self._free_sandboxes += 1
        self._sandboxes_s += self._now - episode.began
        episode.group.running -= 1
        if not episode.group.running:
            self._counts[GroupState.OPEN] -= 1
            self._counts[GroupState.SCORING] += 1
            own_s = self._costs.driver_s_per_turn - self._costs.assembly_s_per_turn
            self._at(self._driver.serve(self._now, own_s * self._turns_per_group()), self._scored)
        self._start_episodes()

    def _turns_per_group(self) -> int:
        return self._size.group_size * self._turns

    def _scored(self) -> None:
        self._counts[GroupState.SCORING] -= 1
        self._counts[GroupState.READY] += 1
        self._fill()
        self._lease()

    # Training

    def _lease(self) -> None:
        loop, batch = self._loop, self._size.groups_per_batch
        if loop.is_training or self._counts[GroupState.READY] < batch:
            return
        loop.is_training, loop.leased, loop.began = True, batch, self._now
        self._counts[GroupState.READY] -= batch
        self._counts[GroupState.LEASED] += batch
        self._assemble(batch)

    def _assemble(self, left: int) -> None:
        """Assemble one group after the other, since the driver serves closed groups meanwhile."""
        if left:
            end = self._driver.serve(self._now, self._costs.assembly_s_per_turn * self._turns_per_group())
            self._at(end, self._assemble, left - 1)
            return
        loop = self._loop
        loop.assembly_s += self._now - loop.began
        tokens = loop.leased * self._turns_per_group() * self._costs.tokens_per_turn
        seconds = tokens / (self._size.ranks * self._assumed.rank_tokens_per_s)
        loop.learner_s += seconds
        self._at(self._now + seconds, self._trained)

    def _trained(self) -> None:
        self._counts[GroupState.LEASED] -= self._loop.leased
        self._paused = True
        self._publish(0)

    def _publish(self, first: int) -> None:
        loop, assumed, size = self._loop, self._assumed, self._size
        if first < size.engines:
            seconds = BYTES_PER_PARAMETER * assumed.parameters / assumed.network_bytes_per_s
            for engine in range(first, min(first + self._engines_at_once, size.engines)):
                self._engines[engine].pause(self._now, seconds)
                self._versions[engine] += 1
                self._schedule(engine)
            loop.weights_s += seconds
            self._at(self._now + seconds, self._publish, first + self._engines_at_once)
            return
        self._paused = False
        loop.updates += 1
        loop.is_training = False
        self._fill()
        self._lease()

    # Figures

    def _busy(self) -> dict[str, float]:
        """Return the busy seconds of each station so far, per server."""
        loop = self._loop
        return {
            "sandboxes": self._sandboxes_s / self._size.sandboxes,
            "workers": sum(one.busy_s for one in self._workers) / self._size.workers,
            "engines": sum(one.busy_s for one in self._engines) / self._size.engines,
            "writers": sum(writer.busy_s for writer in self._writers) / self._size.nodes,
            "database": self._database.busy_s / self._assumed.database_cores,
            "driver": self._driver.busy_s,
            "learner": loop.learner_s,
            "weights": loop.weights_s,
            "training loop": loop.assembly_s + loop.learner_s + loop.weights_s,
        }

    def _result(self, updates: int, seconds: float, before: dict[str, float]) -> Result:
        after = self._busy()
        return Result(
            turns_per_s=updates * self._size.groups_per_batch * self._turns_per_group() / seconds,
            updates_per_hour=3600 * updates / seconds,
            utilization={name: (after[name] - before[name]) / seconds for name in after},
        )
