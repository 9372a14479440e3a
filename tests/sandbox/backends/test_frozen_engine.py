"""A frozen Docker engine delays only requests that need a new sandbox."""

import asyncio
import os
import signal
from time import monotonic

import psutil
import pytest
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.pool import Pool

SPEC = SandboxSpec(memory_mib=128, disk_mib=16)
FROZEN_S = float(os.environ.get("TURNWISE_FROZEN_S", "8"))
STALL_MAX_S = 1.0
"""Maximum stall of the event loop."""


def engine() -> psutil.Process:
    """Return the running dockerd."""
    found = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "dockerd"]
    assert len(found) == 1, "this test needs exactly one dockerd on this machine"
    return found[0]


async def worst_stall(ends: asyncio.Event) -> float:
    """Return the maximum delay of the event loop until ``ends``, in seconds."""
    worst, step = 0.0, 0.05
    while not ends.is_set():
        began = monotonic()
        await asyncio.sleep(step)
        worst = max(worst, monotonic() - began - step)
    return worst


@pytest.mark.alone
@pytest.mark.docker
@pytest.mark.chaos
def test_frozen_engine_delays_only_new_sandboxes() -> None:
    async def main() -> None:
        pool = await Pool(DockerBackend("frozen"), capacity=4, warm=1).open()
        ends = asyncio.Event()
        watching = asyncio.create_task(worst_stall(ends))
        dockerd = engine()
        try:
            held = [await pool.lease(SPEC, timeout_s=60) for _ in range(2)]
            while not pool.health().idle:
                await asyncio.sleep(0.1)
            dockerd.send_signal(signal.SIGSTOP)
            warm = await pool.lease(SPEC, timeout_s=5)
            waiting = asyncio.create_task(pool.lease(SPEC, timeout_s=FROZEN_S + 90))
            until = monotonic() + FROZEN_S
            while monotonic() < until:
                for sandbox in (*held, warm):
                    assert (await sandbox.exec(["echo", "here"], timeout_s=5)).stdout == b"here\n"
                await asyncio.sleep(0.5)
            assert not waiting.done()
            # A released sandbox serves the waiting request while the engine is still frozen.
            released = held.pop()
            pool.release(released)
            async with asyncio.timeout(10):
                assert (await waiting).id == released.id
            last = asyncio.create_task(pool.lease(SPEC, timeout_s=90))
            dockerd.send_signal(signal.SIGCONT)
            assert (await (await last).exec(["echo", "again"], timeout_s=5)).stdout == b"again\n"
        finally:
            dockerd.send_signal(signal.SIGCONT)
            ends.set()
            assert await watching < STALL_MAX_S
            await pool.close()

    asyncio.run(main())
