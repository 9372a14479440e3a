"""A Docker engine that stops answering for a while holds nobody up but those who need a new sandbox."""

import asyncio
import os
import signal
from time import monotonic

import psutil
import pytest
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.pool.pool import Pool

SPEC = SandboxSpec(memory_mib=128, disk_mib=16)
FROZEN_SECONDS = float(os.environ.get("TURNWISE_FROZEN_SECONDS", "12"))
STALL = 1.0
"""Seconds the event loop may be held up."""


def engine() -> psutil.Process:
    """The running dockerd."""
    found = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "dockerd"]
    assert len(found) == 1, "one dockerd is expected on this machine"
    return found[0]


async def worst_stall(ends: asyncio.Event) -> float:
    """The longest time that the event loop took to come round, beyond what was asked."""
    worst, step = 0.0, 0.05
    while not ends.is_set():
        began = monotonic()
        await asyncio.sleep(step)
        worst = max(worst, monotonic() - began - step)
    return worst


@pytest.mark.alone
@pytest.mark.docker
@pytest.mark.chaos
def test_a_frozen_engine_stalls_nothing_and_is_waited_for() -> None:
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
            waiting = asyncio.create_task(pool.lease(SPEC, timeout_s=FROZEN_SECONDS + 90))
            until = monotonic() + FROZEN_SECONDS
            while monotonic() < until:
                for box in (*held, warm):
                    assert (await box.exec(["echo", "here"], timeout_s=5)).stdout == b"here\n"
                await asyncio.sleep(0.5)
            pool.release(held.pop())
            assert not waiting.done() or pool.health().leased == 3
            dockerd.send_signal(signal.SIGCONT)
            last = await waiting
            assert (await last.exec(["echo", "again"], timeout_s=5)).stdout == b"again\n"
        finally:
            dockerd.send_signal(signal.SIGCONT)
            ends.set()
            assert await watching < STALL
            await pool.close()

    asyncio.run(main())
