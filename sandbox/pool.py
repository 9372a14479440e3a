"""Pool of warm sandboxes: a lease takes under a millisecond, and released sandboxes are reset and leased again.

A pool belongs to one event loop. Invariants:

* ``idle + leased + starting + resetting`` never exceeds ``capacity``, nor do their memory limits together exceed
  ``memory_mib``; further lease requests wait in order.
* A sandbox serves every spec with an equal ``SandboxSpec.container``.
* A sandbox becomes idle only after a successful reset; after any failure it is closed and replaced.
* At most ``max_starts`` sandboxes start at the same time; after several failures in a row, only probes start.
* A lease that is not released ends at its maximum duration.
* A sandbox near the end of its time to live is not leased.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from ..base.circuit_breaker import CircuitBreaker
from .backends.protocol import Backend
from .errors import LeaseTimeout, NoEngine, NoImage, NotTrusted, SandboxError, TooLarge, classify
from .sandbox import Sandbox
from .spec import SandboxSpec

LOG = logging.getLogger(__name__)

SANDBOX_SHARE = 0.75
"""Share of the machine's memory for sandboxes if the settings name no amount."""
GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
RESET_TIMEOUT_S = 10.0
REAP_INTERVAL_S = 15.0
MAINTENANCE_INTERVAL_S = 1.0
STARVATION_MAX_S = 5.0
"""Maximum time for which sandboxes of one spec are leased again while a request for another spec waits."""
PERMANENT_ERRORS = (NoImage, NoEngine, NotTrusted)
"""Errors that a retry cannot fix; waiting requests fail immediately."""


@dataclass(frozen=True, slots=True)
class PoolHealth:
    """Current state of a pool, and its counters since it was opened."""

    capacity: int
    memory_mib: int
    """Limit of the memory of all sandboxes together."""
    held_mib: int
    """Memory of the idle, leased, starting and resetting sandboxes together."""
    idle: int
    leased: int
    starting: int
    resetting: int
    waiting: int
    """Lease requests without a sandbox."""
    leases: int
    started: int
    start_failures: int
    reset_failures: int
    overdue: int
    """Leases that the pool ended at their maximum duration."""
    reaped: int
    """Sandboxes that the backend removed because their owner was dead or their time to live had ended."""
    loop_lag_ms: float
    """Maximum lag of the event loop."""
    breaker_open: bool
    last_failure: str

    def json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def default_memory_mib() -> int:
    """Return ``SANDBOX_SHARE`` of the memory that this process's control group, or else the machine, has in MiB."""
    total = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) << 10
    limits = [int(text) for path in GROUP_LIMITS if (text := _read(path)).isdigit()]
    return int(min([total, *limits]) * SANDBOX_SHARE) >> 20


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


@dataclass(slots=True, eq=False)
class _Waiter:
    spec: SandboxSpec
    max_duration_s: float
    found: asyncio.Future[Sandbox]
    since: float = field(default_factory=monotonic)


class Pool:
    """Sandboxes of one backend. Await ``open`` in the event loop that will own the pool."""

    def __init__(
        self,
        backend: Backend,
        *,
        capacity: int = 16,
        memory_mib: int | None = None,
        warm: int = 2,
        max_starts: int = 4,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Hold up to ``capacity`` sandboxes of together ``memory_mib`` (None: most of this machine's memory).

        ``warm`` idle ones of every leased spec are kept if the capacity allows.
        """
        self.backend = backend
        self.capacity = capacity
        self.memory_mib = default_memory_mib() if memory_mib is None else memory_mib
        self.warm = warm
        self.breaker = breaker or CircuitBreaker()
        self._max_starts = max_starts
        self._idle: dict[SandboxSpec, deque[Sandbox]] = {}
        self._leased: dict[str, tuple[Sandbox, float]] = {}
        """By id: the sandbox and the end of its lease."""
        self._starting: dict[SandboxSpec, int] = {}
        self._resetting: list[SandboxSpec] = []
        self._waiting: list[_Waiter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancellable: set[asyncio.Task[None]] = set()
        self._counts = dict.fromkeys(("leases", "started", "start_failures", "reset_failures", "overdue", "reaped"), 0)
        self._loop_lag_ms = 0.0
        self._closed = False

    async def open(self) -> "Pool":
        """Start the maintenance task."""
        self._spawn(self._maintain(), cancellable=True)
        return self

    async def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> Sandbox:
        """Return a clean sandbox, leased for ``max_duration_s`` and at most for its time to live.

        Raises:
            LeaseTimeout: no sandbox became free within ``timeout_s``.
            NoImage, NoEngine, NotTrusted, TooLarge: no sandbox of this spec can ever start.
        """
        if self._closed:
            raise SandboxError("the sandbox pool is closed")
        if spec.memory_mib > self.memory_mib:
            raise TooLarge(
                f"a sandbox of {spec.memory_mib} MiB does not fit into the {self.memory_mib} MiB of this node's pool: "
                "reduce the `memory_mib` of its spec, or set `sandboxes.memory_per_node_mib`"
            )
        sandbox = await self._lease(spec.container(), timeout_s, min(max_duration_s or spec.ttl_s, spec.ttl_s))
        sandbox.spec = spec
        return sandbox

    async def _lease(self, spec: SandboxSpec, timeout_s: float, max_duration_s: float) -> Sandbox:
        sandbox = self._take_idle(spec, max_duration_s)
        if sandbox is not None:
            self._assign(sandbox, max_duration_s)
            return sandbox
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
                # The sandbox was assigned at the same moment as the request was cancelled.
                self.release(waiter.found.result())
            if isinstance(error, TimeoutError):
                what = f"no sandbox of image {spec.image} and {spec.memory_mib} MiB within {timeout_s:g} s"
                raise LeaseTimeout(f"{what}: {self._describe_load()}") from None
            raise

    def has_room(self, spec: SandboxSpec) -> bool:
        """Return whether a lease of this spec need not wait for the release of another."""
        held = [sandbox.spec for sandbox, _ in self._leased.values()] + [waiter.spec for waiter in self._waiting]
        return not self.breaker.is_open and self._fits([*held, spec])

    def release(self, sandbox: Sandbox) -> None:
        """End a lease and reset the sandbox in the background; do nothing if the sandbox is not leased."""
        if self._leased.pop(sandbox.id, None) is not None:
            self._resetting.append(sandbox.spec)
            self._spawn(self._reset(sandbox))

    def health(self) -> PoolHealth:
        """Return the pool in numbers."""
        return PoolHealth(
            capacity=self.capacity,
            memory_mib=self.memory_mib,
            held_mib=sum(spec.memory_mib for spec in self._held()),
            idle=sum(map(len, self._idle.values())),
            leased=len(self._leased),
            starting=sum(self._starting.values()),
            resetting=len(self._resetting),
            waiting=len(self._waiting),
            loop_lag_ms=round(self._loop_lag_ms, 1),
            breaker_open=self.breaker.is_open,
            last_failure=self.breaker.last_error,
            **self._counts,
        )

    async def close(self) -> None:
        """End every sandbox, fail every waiting request, and close the backend."""
        self._closed = True
        for task in self._cancellable & self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._waiting:
            if not waiter.found.done():
                waiter.found.set_exception(SandboxError("the sandbox pool was closed"))
        idle = [sandbox for sandboxes in self._idle.values() for sandbox in sandboxes]
        leased = [sandbox for sandbox, _ in self._leased.values()]
        self._idle, self._leased = {}, {}
        await asyncio.gather(*(sandbox.close() for sandbox in idle + leased))
        await self.backend.close()

    def _take_idle(self, spec: SandboxSpec, max_duration_s: float) -> Sandbox | None:
        """Return an idle sandbox that lives long enough; close those that do not, until one is found."""
        needed_s = max_duration_s if max_duration_s < spec.ttl_s else spec.ttl_s / 2
        idle = self._idle.get(spec, deque[Sandbox]())
        for _ in range(len(idle)):
            sandbox = idle.popleft()
            if sandbox.alive and sandbox.expires_at - monotonic() >= needed_s:
                return sandbox
            self._spawn(sandbox.close())
        return None

    def _assign(self, sandbox: Sandbox, max_duration_s: float) -> None:
        self._leased[sandbox.id] = (sandbox, monotonic() + max_duration_s)
        self._counts["leases"] += 1
        self._fill()

    def _return_to_pool(self, sandbox: Sandbox) -> None:
        """Assign a clean sandbox to the longest-waiting request for its spec, or make it idle.

        If the first request waits for another spec longer than ``STARVATION_MAX_S``, close the sandbox to make room.
        """
        sandbox.spec = sandbox.spec.container()
        first = self._waiting[0] if self._waiting else None
        starves = first and first.spec != sandbox.spec and monotonic() - first.since > STARVATION_MAX_S
        if first and starves and not self._fits([*self._held(), sandbox.spec, first.spec]):
            self._spawn(sandbox.close())
            self._fill()
            return
        for waiter in self._waiting:
            if waiter.spec == sandbox.spec and not waiter.found.done():
                self._waiting.remove(waiter)
                self._assign(sandbox, waiter.max_duration_s)
                waiter.found.set_result(sandbox)
                return
        self._idle.setdefault(sandbox.spec, deque()).append(sandbox)
        self._fill()

    def _fill(self) -> None:
        """Start sandboxes for waiting requests, then warm ones, as far as the capacity allows."""
        if self._closed:
            return
        wanted: dict[SandboxSpec, int] = {}
        for waiter in self._waiting:
            wanted[waiter.spec] = wanted.get(waiter.spec, 0) + 1
        for spec, count in wanted.items():
            for _ in range(count - self._starting.get(spec, 0)):
                # The throttle is checked first, so that no idle sandbox is evicted for a start that must wait.
                if self._throttled() or not (self._make_room(spec) and self._start(spec)):
                    break
        for spec in {sandbox.spec.container() for sandbox, _ in self._leased.values()}:
            spare = len(self._idle.get(spec, ())) + self._starting.get(spec, 0)
            for _ in range(self.warm - spare):
                if not self._fits([*self._held(), spec]):
                    break
                if not self._start(spec):
                    return

    def _held(self) -> list[SandboxSpec]:
        """Return the spec of every sandbox that takes up capacity."""
        busy = [sandbox.spec for sandbox, _ in self._leased.values()] + self._resetting
        starting = [spec for spec, count in self._starting.items() for _ in range(count)]
        return busy + starting + [sandbox.spec for sandboxes in self._idle.values() for sandbox in sandboxes]

    def _fits(self, specs: list[SandboxSpec]) -> bool:
        """Return whether sandboxes of these specs stay within capacity and memory."""
        return len(specs) <= self.capacity and sum(spec.memory_mib for spec in specs) <= self.memory_mib

    def _make_room(self, spec: SandboxSpec) -> bool:
        """Close idle sandboxes of other specs until one of ``spec`` fits; close none if that does not suffice."""
        held = self._held()
        spare = [one for other, idle in self._idle.items() if other != spec for one in idle]
        closing = list[Sandbox]()
        while not self._fits([*held, spec]):
            if not spare:
                return False
            closing.append(spare.pop(0))
            held.remove(closing[-1].spec)
        for sandbox in closing:
            self._idle[sandbox.spec].remove(sandbox)
            self._spawn(sandbox.close())
        return True

    def _throttled(self) -> bool:
        return sum(self._starting.values()) >= (1 if self.breaker.is_open else self._max_starts)

    def _start(self, spec: SandboxSpec) -> bool:
        """Start a sandbox in the background; return False if the throttle or the circuit breaker forbids it now."""
        if self._throttled() or not self.breaker.allows():
            return False
        self._starting[spec] = self._starting.get(spec, 0) + 1
        self._spawn(self._run_start(spec), cancellable=True)
        return True

    async def _run_start(self, spec: SandboxSpec) -> None:
        sandbox = None
        try:
            sandbox = await self.backend.start(spec)
            sandbox.backend = self.backend.name
        except PERMANENT_ERRORS as error:
            self._counts["start_failures"] += 1
            self._fail_waiters(spec, error)
            # No immediate retry: without waiting requests, warm starts would fail in an endless loop.
            return
        except Exception as error:
            self._counts["start_failures"] += 1
            LOG.warning("a sandbox did not start", exc_info=True, extra={"image": spec.image})
            self.breaker.record_failure(str(classify(error, f"starting a sandbox of image {spec.image}")))
        else:
            self._counts["started"] += 1
            self.breaker.record_success()
        finally:
            self._starting[spec] -= 1
        if sandbox is not None:
            self._return_to_pool(sandbox)
        self._fill()

    def _fail_waiters(self, spec: SandboxSpec, error: SandboxError) -> None:
        for waiter in [one for one in self._waiting if one.spec == spec]:
            self._waiting.remove(waiter)
            if not waiter.found.done():
                waiter.found.set_exception(error)

    async def _reset(self, sandbox: Sandbox) -> None:
        clean = False
        try:
            if sandbox.alive:
                await sandbox.reset(timeout_s=RESET_TIMEOUT_S)
                clean = True
        except Exception:
            self._counts["reset_failures"] += 1
            LOG.warning("a sandbox could not be reset; it is replaced", exc_info=True, extra={"sandbox": sandbox.id})
        finally:
            self._resetting.remove(sandbox.spec)
            if not clean:
                await sandbox.close()
        if clean:
            self._return_to_pool(sandbox)
        else:
            self._fill()

    async def _maintain(self) -> None:
        """Close overdue, dead and expiring sandboxes, start missing ones, and reap, at regular intervals."""
        reaped_at = 0.0
        while True:
            began = monotonic()
            await asyncio.sleep(MAINTENANCE_INTERVAL_S)
            now = monotonic()
            self._loop_lag_ms = max(self._loop_lag_ms, 1e3 * (now - began - MAINTENANCE_INTERVAL_S))
            for sandbox, until in list(self._leased.values()):
                if now > until:
                    self._counts["overdue"] += 1
                    self._leased.pop(sandbox.id)
                    sandbox.connection.close("its lease ended, because it was not released within its maximum duration")
                    self._spawn(sandbox.close())
            for spec, idle in self._idle.items():
                for sandbox in [one for one in idle if not one.alive or one.expires_at - now < spec.ttl_s / 4]:
                    idle.remove(sandbox)
                    self._spawn(sandbox.close())
            self._fill()
            if now - reaped_at > REAP_INTERVAL_S:
                reaped_at = now
                self._spawn(self._reap(), cancellable=True)

    async def _reap(self) -> None:
        with contextlib.suppress(SandboxError):
            self._counts["reaped"] += len(await self.backend.reap())

    def _spawn(self, work: Coroutine[Any, Any, None], *, cancellable: bool = False) -> None:
        """Run ``work`` in the background; ``close`` cancels it if it is ``cancellable`` and else waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        for tasks in (self._tasks, self._cancellable) if cancellable else (self._tasks,):
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def _describe_load(self) -> str:
        """Return which sandboxes exist and the last failure, for the text of a lease timeout."""
        now = self.health()
        text = (
            f"capacity {self.capacity}: {now.leased} leased, {now.starting} starting, {now.resetting} resetting, "
            f"{now.idle} idle, of together {now.held_mib} of {self.memory_mib} MiB; {now.waiting} other requests wait"
        )
        if now.breaker_open:
            return f"{text}; the last {self.breaker.failures} starts failed: {self.breaker.last_error}"
        return f"{text}; last failure: {self.breaker.last_error}" if self.breaker.last_error else text
