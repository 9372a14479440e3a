"""Warm sandboxes: a lease takes one in less than a millisecond, and what comes back is cleared and lent again.

Of one event loop. What holds:

* ``idle + leased + starting + clearing`` never exceeds ``capacity``; a lease beyond it waits its turn, and one that
  gives up says what everyone was waiting for;
* a sandbox goes back to idle only after a reset that worked; after any failure it is closed and another is started;
* not more than ``starts`` are started at once, and after some failures in a row only probes are (``breaker``);
* a lease that was never given back ends at its deadline, and a sandbox whose time to live is nearly over is not lent.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from ..backends.registry import Backend
from ..errors import LeaseTimeout, NoEngine, NoImage, NotTrusted, SandboxError, classify
from ..sandbox import Box
from ..spec import SandboxSpec
from .circuit_breaker import CircuitBreaker

RESET_SECONDS = 10.0
SWEEP_SECONDS = 15.0
"""Between two looks for what is dead, overdue or broken."""
TICK_SECONDS = 1.0
FAIR_SECONDS = 5.0
"""How long one kind of sandbox may keep those who wait for another waiting."""
HOPELESS = (NoImage, NoEngine, NotTrusted)
"""What no second try mends: whoever waits is told at once."""


@dataclass(frozen=True, slots=True)
class Health:
    """A pool in numbers, since it began."""

    capacity: int
    idle: int
    leased: int
    starting: int
    clearing: int
    waiting: int
    leases: int
    started: int
    start_failures: int
    reset_failures: int
    overdue: int
    """Leases that were ended at their deadline."""
    swept: int
    late_ms: float
    """The most by which its event loop was late for its housekeeping."""
    breaker_open: bool
    last_failure: str

    def json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(slots=True, eq=False)
class _Waiter:
    spec: SandboxSpec
    max_duration_s: float
    found: asyncio.Future[Box]
    since: float = field(default_factory=monotonic)


class Pool:
    """Sandboxes of one backend. Call ``open`` in the event loop that is to own it."""

    def __init__(
        self,
        backend: Backend,
        *,
        capacity: int = 16,
        warm: int = 2,
        starts: int = 4,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """``warm`` more than are leased are kept ready of a spec that was asked for, as far as ``capacity`` goes."""
        self.backend = backend
        self.capacity = capacity
        self.warm = warm
        self.breaker = breaker or CircuitBreaker()
        self._starts = starts
        self._idle: dict[SandboxSpec, deque[Box]] = {}
        self._leased: dict[str, tuple[Box, float]] = {}
        self._starting: dict[SandboxSpec, int] = {}
        self._clearing = 0
        self._waiting: list[_Waiter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._may_stop: set[asyncio.Task[None]] = set()
        self._counts = dict.fromkeys(("leases", "started", "start_failures", "reset_failures", "overdue", "swept"), 0)
        self._late_ms = 0.0
        self._closed = False

    async def open(self) -> "Pool":
        """Begin keeping house."""
        self._spawn(self._keep_house(), may_stop=True)
        return self

    async def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> Box:
        """A clean sandbox. ``holds`` is how many seconds the lease may last; at most the sandbox's time to live.

        Raises:
            LeaseTimeout: none came free within ``deadline`` seconds.
            NoImage, NoEngine, NotTrusted: none ever will.
        """
        if self._closed:
            raise SandboxError("the sandbox pool is closed")
        max_duration_s = min(max_duration_s or spec.ttl, spec.ttl)
        box = self._take(spec, max_duration_s)
        if box is not None:
            self._lend(box, max_duration_s)
            return box
        waiter = _Waiter(spec, max_duration_s, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._fill()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter.found
        except BaseException as error:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.found.done() and not waiter.found.cancelled() and not waiter.found.exception():
                # It came in the very moment in which the waiting was given up.
                self.release(waiter.found.result())
            if isinstance(error, TimeoutError):
                raise LeaseTimeout(f"no sandbox of image {spec.image} within {timeout_s:g} s: {self._why()}") from None
            raise

    def has_room(self) -> bool:
        """Whether a lease would not have to wait for somebody else's to end."""
        return not self.breaker.is_open and len(self._leased) + len(self._waiting) < self.capacity

    def max_duration_s(self, box: Box) -> bool:
        """Whether this box is leased, and not yet over."""
        return box.id in self._leased

    def release(self, box: Box) -> None:
        """End a lease; clearing goes on in the background. A box that is not leased is left alone."""
        if self._leased.pop(box.id, None) is not None:
            self._clear(box)

    def health(self) -> Health:
        """The pool in numbers."""
        return Health(
            capacity=self.capacity,
            idle=sum(map(len, self._idle.values())),
            leased=len(self._leased),
            starting=sum(self._starting.values()),
            clearing=self._clearing,
            waiting=len(self._waiting),
            late_ms=round(self._late_ms, 1),
            breaker_open=self.breaker.is_open,
            last_failure=self.breaker.reason,
            **self._counts,
        )

    async def close(self) -> None:
        """End every sandbox, and the housekeeping."""
        self._closed = True
        for task in self._may_stop & self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._waiting:
            if not waiter.found.done():
                waiter.found.set_exception(SandboxError("the sandbox pool was closed"))
        boxes = [box for boxes in self._idle.values() for box in boxes] + [box for box, _ in self._leased.values()]
        self._idle, self._leased = {}, {}
        await asyncio.gather(*(box.close() for box in boxes))
        await self.backend.close()

    def _take(self, spec: SandboxSpec, max_duration_s: float) -> Box | None:
        """An idle sandbox with enough time to live; those that have ended are dropped on the way."""
        idle = self._idle.get(spec, ())
        for _ in range(len(idle)):
            box = self._idle[spec].popleft()
            if box.alive and box.expires - monotonic() >= (
                max_duration_s if max_duration_s < spec.ttl else spec.ttl / 2
            ):
                return box
            self._spawn(box.close())
        return None

    def _lend(self, box: Box, max_duration_s: float) -> None:
        self._leased[box.id] = (box, monotonic() + max_duration_s)
        self._counts["leases"] += 1
        self._fill()

    def _back(self, box: Box) -> None:
        """A clean sandbox: to whoever waited longest for one like it, or idle. If somebody has waited too long for
        another kind, it makes room instead.
        """
        first = self._waiting[0] if self._waiting else None
        if first and first.spec != box.spec and monotonic() - first.since > FAIR_SECONDS and not self._room(1):
            self._spawn(box.close())
            self._fill()
            return
        for waiter in self._waiting:
            if waiter.spec == box.spec and not waiter.found.done():
                self._waiting.remove(waiter)
                self._lend(box, waiter.max_duration_s)
                waiter.found.set_result(box)
                return
        self._idle.setdefault(box.spec, deque()).append(box)
        self._fill()

    def _fill(self) -> None:
        """Start what is waited for, and what should be warm, as far as there is room."""
        if self._closed:
            return
        wanted: dict[SandboxSpec, int] = {}
        for waiter in self._waiting:
            wanted[waiter.spec] = wanted.get(waiter.spec, 0) + 1
        for spec, count in wanted.items():
            for _ in range(count - self._starting.get(spec, 0)):
                # Nothing is evicted for what may not be started yet.
                if self._throttled() or not ((self._room() or self._evict(spec)) and self._start(spec)):
                    break
        used = {box.spec for box, _ in self._leased.values()}
        for spec in used:
            while self._room() and len(self._idle.get(spec, ())) + self._starting.get(spec, 0) < self.warm:
                if not self._start(spec):
                    return

    def _room(self, besides: int = 0) -> bool:
        idle = sum(map(len, self._idle.values()))
        held = idle + len(self._leased) + sum(self._starting.values()) + self._clearing + besides
        return held < self.capacity

    def _evict(self, spec: SandboxSpec) -> bool:
        """Make room by ending an idle sandbox that is not of this spec."""
        for other, boxes in self._idle.items():
            if other != spec and boxes:
                self._spawn(boxes.popleft().close())
                return True
        return False

    def _throttled(self) -> bool:
        return sum(self._starting.values()) >= (1 if self.breaker.is_open else self._starts)

    def _start(self, spec: SandboxSpec) -> bool:
        """Begin starting one; False where the throttle or the breaker forbids it for now."""
        if self._throttled() or not self.breaker.allows():
            return False
        self._starting[spec] = self._starting.get(spec, 0) + 1
        self._spawn(self._started(spec), may_stop=True)
        return True

    async def _started(self, spec: SandboxSpec) -> None:
        box = None
        try:
            box = await self.backend.start(spec)
        except HOPELESS as error:
            self._counts["start_failures"] += 1
            self._tell(spec, error)
            # Where nobody waited it would fail again at once, and for ever: the next tick is soon enough.
            return
        except Exception as error:
            self._counts["start_failures"] += 1
            self.breaker.failed(str(classify(error, f"starting a sandbox of image {spec.image}")))
        else:
            self._counts["started"] += 1
            self.breaker.succeeded()
        finally:
            self._starting[spec] -= 1
        if box is not None:
            self._back(box)
        self._fill()

    def _tell(self, spec: SandboxSpec, error: SandboxError) -> None:
        for waiter in [one for one in self._waiting if one.spec == spec]:
            self._waiting.remove(waiter)
            if not waiter.found.done():
                waiter.found.set_exception(error)

    def _clear(self, box: Box) -> None:
        self._clearing += 1
        self._spawn(self._cleared(box))

    async def _cleared(self, box: Box) -> None:
        clean = False
        try:
            if box.alive:
                await box.reset(timeout_s=RESET_SECONDS)
                clean = True
        except Exception:
            self._counts["reset_failures"] += 1
        finally:
            self._clearing -= 1
            if not clean:
                await box.close()
        if clean:
            self._back(box)
        else:
            self._fill()

    async def _keep_house(self) -> None:
        swept = 0.0
        while True:
            began = monotonic()
            await asyncio.sleep(TICK_SECONDS)
            now = monotonic()
            self._late_ms = max(self._late_ms, 1e3 * (now - began - TICK_SECONDS))
            for box, until in list(self._leased.values()):
                if now > until:
                    self._counts["overdue"] += 1
                    self._leased.pop(box.id)
                    self._spawn(box.close())
            for spec, boxes in self._idle.items():
                for box in [box for box in boxes if not box.alive or box.expires - now < spec.ttl / 4]:
                    boxes.remove(box)
                    self._spawn(box.close())
            self._fill()
            if now - swept > SWEEP_SECONDS:
                swept = now
                self._spawn(self._sweep(), may_stop=True)

    async def _sweep(self) -> None:
        with contextlib.suppress(SandboxError):
            self._counts["swept"] += len(await self.backend.sweep())

    def _spawn(self, work: Coroutine[Any, Any, None], *, may_stop: bool = False) -> None:
        """Have something done; ``close`` waits for it, or cancels it if it ``may_stop`` anywhere."""
        task = asyncio.get_running_loop().create_task(work)
        for tasks in (self._tasks, self._may_stop) if may_stop else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def _why(self) -> str:
        """What a lease waits for, for a person."""
        now = self.health()
        where = f"{now.leased} leased, {now.starting} starting, {now.clearing} being cleared, {now.idle} idle"
        said = f"{now.waiting} wait, of {self.capacity} {where}"
        if now.breaker_open:
            return f"{said}; starting failed {self.breaker.failures} times in a row, last: {self.breaker.reason}"
        return f"{said}; last failure: {self.breaker.reason}" if self.breaker.reason else said
