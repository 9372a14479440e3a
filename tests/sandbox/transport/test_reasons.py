"""A request that fails names the reason: another request, the time to live, or the end of the lease."""

import asyncio

import pytest
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.errors import SandboxBusy, SandboxLost
from turnwise.sandbox.pool import Pool
from turnwise.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)


def test_a_request_waits_for_another_only_until_its_timeout() -> None:
    async def work() -> None:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC)
        running = asyncio.create_task(sandbox.exec(["sleep", "2"], timeout_s=20))
        await asyncio.sleep(0.1)
        with pytest.raises(SandboxBusy, match=r"read: not sent within 0\.1 s, because `exec` runs"):
            await sandbox.read(".", timeout_s=0.1)
        assert not running.done()
        # The time for which a command waits is taken from its own.
        late = await sandbox.exec(["sleep", "5"], timeout_s=2.5)
        assert late.timed_out
        assert late.duration_s < 2
        assert (await running).exit_code == 0
        await sandbox.close()
        await backend.close()

    asyncio.run(work())


def test_the_end_of_the_time_to_live_is_reported() -> None:
    async def work() -> None:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC.model_copy(update={"ttl_s": 0.5}))
        for _ in range(2):
            with pytest.raises(SandboxLost, match=r"exec: its time to live \(`ttl_s` of its spec\) ended"):
                await sandbox.exec(["sleep", "5"], timeout_s=10)
        await sandbox.close()
        await backend.close()

    asyncio.run(work())


def test_the_maximum_duration_of_a_lease_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.pool.MAINTENANCE_INTERVAL_S", 0.05)

    async def work() -> None:
        pool = await Pool(BubblewrapBackend(), capacity=1, warm=0).open()
        sandbox = await pool.lease(SPEC, timeout_s=30, max_duration_s=0.2)
        with pytest.raises(SandboxLost, match="its lease ended, because it was not released within its maximum"):
            await sandbox.exec(["sleep", "5"], timeout_s=10)
        await pool.close()

    asyncio.run(work())
