"""The pool leases clean sandboxes in order, never exceeds its capacity, and recovers from failures."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from turnwise.base.circuit_breaker import CircuitBreaker
from turnwise.sandbox import pool as pool_module
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.errors import LeaseTimeout, NoImage, NotTrusted, SandboxError, SandboxLost, StartFailed, TooLarge
from turnwise.sandbox.pool import Pool
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.spec import SandboxSpec
from turnwise.tests.sandbox.faulty import Faulty

pytestmark = pytest.mark.slow

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, inodes=1024, pids=32, trusted=True)
OTHER = SPEC.model_copy(update={"pids": 33})


@asynccontextmanager
async def opened(faulty: Faulty | None = None, **settings: Any) -> AsyncIterator[tuple[Pool, Faulty]]:
    backend = faulty or Faulty(BubblewrapBackend())
    pool = await Pool(backend, **settings).open()
    try:
        yield pool, backend
    finally:
        await pool.close()
    assert backend.open == set()


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, "the condition did not become true"
        await asyncio.sleep(0.01)


async def output_of(sandbox: Sandbox, text: str = "true") -> str:
    done = await sandbox.exec(["sh", "-c", text], timeout_s=20)
    assert done.exit_code == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.mark.alone
def test_warm_lease_is_immediate_and_clean() -> None:
    async def work() -> float:
        async with opened(capacity=4, warm=1) as (pool, _):
            first = await pool.lease(SPEC, timeout_s=20)
            await output_of(first, "touch left; (sleep 600 >/dev/null 2>&1 &)")
            await until(lambda: pool.health().idle == 1)
            pool.release(first)
            pool.release(first)
            await until(lambda: pool.health().idle == 2)
            took = []
            for _ in range(10):
                began = time.perf_counter()
                sandboxes = [await pool.lease(SPEC, timeout_s=20) for _ in range(2)]
                took.append(time.perf_counter() - began)
                for sandbox in sandboxes:
                    assert await output_of(sandbox, "ls -A; cat /proc/[0-9]*/comm | grep -c sleep || true") == "0"
                for sandbox in sandboxes:
                    pool.release(sandbox)
                await until(lambda: pool.health().idle >= 2 and pool.health().resetting == 0)
            assert pool.health().leases == 21
            return min(took)

    assert asyncio.run(work()) < 0.01


def test_leases_are_served_in_the_order_of_the_requests() -> None:
    async def work() -> list[int]:
        served: list[int] = []
        async with opened(capacity=1, warm=0) as (pool, _):

            async def one(number: int) -> None:
                sandbox = await pool.lease(SPEC, timeout_s=20)
                served.append(number)
                pool.release(sandbox)

            async with asyncio.TaskGroup() as group:
                for number in range(12):
                    group.create_task(one(number))
            return served

    assert asyncio.run(work()) == list(range(12))


def test_lease_timeout_names_the_state_of_the_pool() -> None:
    async def work() -> None:
        async with opened(capacity=1, memory_mib=200, warm=0) as (pool, _):
            sandbox = await pool.lease(SPEC, timeout_s=20)
            with pytest.raises(LeaseTimeout) as raised:
                await pool.lease(SPEC, timeout_s=0.1)
            assert str(raised.value) == (
                "no sandbox of image code and 128 MiB within 0.1 s: capacity 1: 1 leased, 0 starting, 0 resetting, "
                "0 idle, of together 128 of 200 MiB; 0 other requests wait"
            )
            assert pool.health().waiting == 0
            pool.release(sandbox)
            assert (await pool.lease(SPEC, timeout_s=20)).id == sandbox.id

    asyncio.run(work())


def test_pool_never_promises_more_memory_than_it_may_use() -> None:
    large = SPEC.model_copy(update={"memory_mib": 300})

    async def work() -> None:
        async with opened(capacity=8, memory_mib=400, warm=2) as (pool, _):
            small = [await pool.lease(SPEC, timeout_s=20) for _ in range(3)]
            assert pool.health().held_mib == 384
            assert not pool.has_room(SPEC)
            with pytest.raises(LeaseTimeout, match="384 of 400 MiB"):
                await pool.lease(SPEC, timeout_s=0.1)
            with pytest.raises(TooLarge, match=r"500 MiB does not fit into the 400 MiB .*memory_per_node_mib"):
                await pool.lease(SPEC.model_copy(update={"memory_mib": 500}), timeout_s=20)
            waiting = asyncio.create_task(pool.lease(large, timeout_s=20))
            for sandbox in small:
                pool.release(sandbox)
            # Idle small ones are closed to make room.
            pool.release(await waiting)
            most = 0
            leases = [asyncio.create_task(pool.lease(one, timeout_s=20)) for one in (SPEC, large, SPEC, SPEC, large)]
            for lease in asyncio.as_completed(leases):
                most = max(most, pool.health().held_mib)
                pool.release(await lease)
            assert 300 <= most <= 400

    asyncio.run(work())


def test_limits_of_single_calls_do_not_need_another_sandbox() -> None:
    async def work() -> None:
        async with opened(capacity=1, warm=0) as (pool, _):
            first = await pool.lease(SPEC, timeout_s=20)
            pool.release(first)
            second = await pool.lease(SPEC.model_copy(update={"output_kib": 1}), timeout_s=20)
            assert second.id == first.id
            done = await second.exec(["yes"], timeout_s=10)
            assert (len(done.stdout), done.output_limit_exceeded) == (1024, True)
            pool.release(second)

    asyncio.run(work())


def test_cancelled_request_passes_its_turn_to_the_next() -> None:
    async def work() -> None:
        async with opened(capacity=1, warm=0) as (pool, _):
            sandbox = await pool.lease(SPEC, timeout_s=20)
            waits = [asyncio.create_task(pool.lease(SPEC, timeout_s=20)) for _ in range(3)]
            await asyncio.sleep(0)
            waits[0].cancel()
            pool.release(sandbox)
            assert (await waits[1]).id == sandbox.id
            # Cancel a request at the moment at which it is served.
            pool.release(sandbox)
            while pool.health().resetting:
                await asyncio.sleep(0)
            waits[2].cancel()
            for got in await asyncio.gather(*waits, return_exceptions=True):
                assert isinstance(got, Sandbox | asyncio.CancelledError)
            pool.release(sandbox)
            await until(lambda: pool.health().idle == 1)
            assert pool.health().leased == 0

    asyncio.run(work())


def test_two_hundred_concurrent_requests_are_served() -> None:
    async def work() -> tuple[int, int, int]:
        async with opened(capacity=8, warm=1) as (pool, backend):

            async def one() -> None:
                sandbox = await pool.lease(SPEC, timeout_s=120)
                await output_of(sandbox)
                pool.release(sandbox)

            async with asyncio.TaskGroup() as group:
                for _ in range(200):
                    group.create_task(one())
            return pool.health().leases, backend.max_open, pool.health().started

    leases, max_open, started = asyncio.run(work())
    assert leases == 200
    assert max_open <= 8
    assert started <= 8


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 4))])
def test_random_failures_keep_the_capacity_and_serve_every_request(seed: int) -> None:
    rng = random.Random(seed)

    async def work() -> None:
        backend = Faulty(BubblewrapBackend(), start=0.2, reset=0.2, seed=seed)
        breaker = CircuitBreaker(threshold=3, probe_interval_s=0.05)
        capacity = rng.randint(1, 5)
        async with opened(backend, capacity=capacity, warm=rng.randint(0, 3), max_starts=2, breaker=breaker) as (
            pool,
            _,
        ):
            held: set[str] = set()
            tick = asyncio.create_task(_watch(pool, capacity))

            async def one() -> None:
                for _ in range(3):
                    await asyncio.sleep(rng.random() * 0.05)
                    sandbox = await pool.lease(rng.choice((SPEC, OTHER)), timeout_s=60)
                    assert sandbox.id not in held
                    held.add(sandbox.id)
                    if rng.random() < 0.2:
                        await sandbox.exec(["sh", "-c", "sleep 600 &"], timeout_s=10)
                    if rng.random() < 0.1:
                        await sandbox.close()
                    await asyncio.sleep(rng.random() * 0.02)
                    held.discard(sandbox.id)
                    pool.release(sandbox)

            async with asyncio.TaskGroup() as group:
                for _ in range(12):
                    group.create_task(one())
            tick.cancel()
            assert backend.max_open <= capacity
            assert pool.health().leases == 36

    asyncio.run(work())


async def _watch(pool: Pool, capacity: int) -> None:
    while True:
        now = pool.health()
        assert now.idle + now.leased + now.starting + now.resetting <= capacity
        await asyncio.sleep(0.001)


def test_sandbox_whose_reset_fails_is_replaced() -> None:
    async def work() -> None:
        async with opened(Faulty(BubblewrapBackend(), reset=1.0), capacity=1, warm=0) as (pool, backend):
            first = await pool.lease(SPEC, timeout_s=20)
            pool.release(first)
            second = await pool.lease(SPEC, timeout_s=20)
            assert second.id != first.id
            assert backend.open == {second.id}
            assert pool.health().reset_failures == 1
            with pytest.raises(SandboxLost):
                await first.exec(["true"], timeout_s=5)

    asyncio.run(work())


def test_after_failures_in_a_row_only_probes_start_until_one_succeeds() -> None:
    async def work() -> None:
        backend = Faulty(BubblewrapBackend())
        backend.errors = [
            StartFailed("the engine is down"),
            OSError("no space left on device"),
            StartFailed("still down"),
        ]
        breaker = CircuitBreaker(threshold=3, probe_interval_s=2.0)
        async with opened(backend, capacity=4, warm=0, breaker=breaker) as (pool, _):
            with pytest.raises(LeaseTimeout, match="the last 3 starts failed: still down"):
                await pool.lease(SPEC, timeout_s=0.5)
            assert backend.starts == 3
            assert pool.health().breaker_open
            assert not pool.has_room(SPEC)
            await output_of(await pool.lease(SPEC, timeout_s=20))
            assert backend.starts == 4
            assert not pool.health().breaker_open
            assert pool.health().start_failures == 3

    asyncio.run(work())


def test_permanent_errors_fail_requests_at_once_and_are_not_retried() -> None:
    async def work() -> int:
        backend = Faulty(BubblewrapBackend())
        async with opened(backend, capacity=4, warm=2) as (pool, _):
            backend.errors = [NoImage("the image does not exist")]
            with pytest.raises(NoImage):
                await pool.lease(SPEC, timeout_s=20)
            untrusted = SPEC.model_copy(update={"trusted": False})
            with pytest.raises(NotTrusted, match="--allow-local-sandbox"):
                await pool.lease(untrusted, timeout_s=20)
            await pool.lease(SPEC, timeout_s=20)
            await until(lambda: pool.health().idle == 2)
            # While a sandbox is leased, the pool starts warm ones without a waiting request.
            backend.errors = [NoImage("the image does not exist")] * 1000
            before = backend.starts
            await pool.lease(SPEC, timeout_s=20)
            await asyncio.sleep(0.5)
            return backend.starts - before

    assert asyncio.run(work()) <= 3


def test_throttled_start_evicts_no_idle_sandbox() -> None:
    async def work() -> None:
        backend = Faulty(BubblewrapBackend())
        async with opened(backend, capacity=4, warm=0, max_starts=1) as (pool, _):
            sandboxes = [await pool.lease(SPEC, timeout_s=20) for _ in range(4)]
            for sandbox in sandboxes:
                pool.release(sandbox)
            await until(lambda: pool.health().idle == 4)
            backend.start_delay_s = 0.5
            waits = [asyncio.create_task(pool.lease(OTHER, timeout_s=20)) for _ in range(4)]
            await until(lambda: pool.health().waiting == 4)
            assert pool.health().idle == 3
            await asyncio.gather(*waits)

    asyncio.run(work())


def test_lease_that_is_not_released_ends_at_its_maximum_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAINTENANCE_INTERVAL_S", 0.05)

    async def work() -> None:
        async with opened(capacity=1, warm=0) as (pool, _):
            late = await pool.lease(SPEC, timeout_s=20, max_duration_s=0.2)
            await output_of(await pool.lease(SPEC, timeout_s=20))
            assert pool.health().overdue == 1
            with pytest.raises(SandboxLost):
                await late.exec(["true"], timeout_s=5)
            pool.release(late)

    asyncio.run(work())


def test_expiring_sandbox_is_not_leased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAINTENANCE_INTERVAL_S", 0.05)

    async def work() -> None:
        short = SPEC.model_copy(update={"ttl_s": 60.0})
        async with opened(capacity=1, warm=0) as (pool, _):
            first = await pool.lease(short, timeout_s=20)
            pool.release(first)
            await until(lambda: pool.health().idle == 1)
            first.expires_at = time.monotonic() + 0.4 * short.ttl_s
            second = await pool.lease(short, timeout_s=20)
            assert second.id != first.id

    asyncio.run(work())


def test_closed_pool_fails_waiting_requests() -> None:
    async def work() -> None:
        async with opened(capacity=1, warm=0) as (pool, _):
            await pool.lease(SPEC, timeout_s=20)
            waiting = asyncio.create_task(pool.lease(SPEC, timeout_s=20))
            await asyncio.sleep(0)
            await pool.close()
            with pytest.raises(SandboxError, match="closed"):
                await waiting
            with pytest.raises(SandboxError, match="closed"):
                await pool.lease(SPEC, timeout_s=1)

    asyncio.run(work())


def test_failing_reap_does_not_stop_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAINTENANCE_INTERVAL_S", 0.02)
    monkeypatch.setattr(pool_module, "REAP_INTERVAL_S", 0.02)

    async def work() -> None:
        async with opened(capacity=2, warm=1) as (pool, _):
            sandbox = await pool.lease(SPEC, timeout_s=20)
            await until(lambda: pool.health().idle == 1)
            spare = next(iter(pool._idle[SPEC]))
            await spare.close()
            await until(lambda: pool.health().idle == 1 and next(iter(pool._idle[SPEC])).id != spare.id)
            await output_of(sandbox)

    asyncio.run(work())
