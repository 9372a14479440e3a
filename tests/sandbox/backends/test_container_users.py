"""Every container has its own uids, and the users of one sandbox are kept apart."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import docker
import pytest
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.backends.ownership import UID
from turnwise.sandbox.backends.user_ids import UidRange
from turnwise.sandbox.errors import SandboxLost, StartFailed
from turnwise.sandbox.spec import SandboxSpec

pytestmark = pytest.mark.docker

SPEC = SandboxSpec(memory_mib=160, cpus=0.5, pids=48, disk_mib=16, inodes=512)


@asynccontextmanager
async def opened() -> AsyncIterator[DockerBackend]:
    backend = DockerBackend("tests")
    try:
        yield backend
    finally:
        await backend.close()


def names_with(uid: int) -> list[str]:
    with closing(docker.APIClient(**docker.utils.kwargs_from_env())) as engine:
        found = engine.containers(all=True, filters={"label": f"{UID}={uid}"})
        return [one["Names"][0].lstrip("/") for one in found]


def test_sandboxes_with_the_same_uids_never_live_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    few = UidRange(1_890_000_000 + 4 * secrets.randbelow(10**6), 1, 4)
    monkeypatch.setattr("turnwise.sandbox.backends.docker.CONTAINER_UIDS", few)

    async def work() -> None:
        async with opened() as first, opened() as second:
            sandbox = await first.start(SPEC)
            with pytest.raises(StartFailed, match="another sandbox had the same uids"):
                await second.start(SPEC)
            assert names_with(few.first) == [sandbox.id]
            assert (await sandbox.exec(["id", "-u"], timeout_s=10)).stdout == f"{few.first}\n".encode()
            await sandbox.close()

    asyncio.run(work())


def test_users_of_a_sandbox_are_kept_apart_and_a_reset_clears_the_files_of_all() -> None:
    async def work() -> None:
        async with opened() as backend:
            sandbox = await backend.start(SPEC)
            private = "mkdir -m 700 /tmp/own && sleep 600 >/dev/null 2>&1 & sleep 0.2; echo $!"
            pid = (await sandbox.exec(["sh", "-c", private], timeout_s=10, user=1)).stdout.decode().strip()
            await sandbox.write({"/tmp/own/secret": b"x"}, timeout_s=10, user=1)  # noqa: S108 - of the sandbox
            assert (await sandbox.exec(["kill", "-9", pid], timeout_s=10)).exit_code
            assert (await sandbox.exec(["sh", "-c", "ls /tmp/own"], timeout_s=10)).exit_code
            assert await sandbox.read("/tmp", timeout_s=10) == {}  # noqa: S108
            assert list(await sandbox.read("/tmp", timeout_s=10, user=1)) == ["own/secret"]  # noqa: S108
            mixed = "mkdir -p /workspace/a && chmod 1777 /workspace/a"
            await sandbox.exec(["sh", "-c", mixed], timeout_s=10)
            await sandbox.exec(["sh", "-c", "mkdir -p -m 700 /workspace/a/b/c"], timeout_s=10, user=2)
            await sandbox.reset(timeout_s=10)
            left = await sandbox.exec(["sh", "-c", "find /tmp /workspace -mindepth 1"], timeout_s=10)
            assert (left.exit_code, left.stdout) == (0, b"")
            with pytest.raises(SandboxLost, match="no user 4"):
                await sandbox.exec(["true"], timeout_s=10, user=4)
            await sandbox.close()

    asyncio.run(work())


def test_busy_processes_do_not_delay_the_guest_agent() -> None:
    """With the priority of the agent, as many busy processes as the limit allows made each of its answers late."""

    async def work() -> None:
        async with opened() as backend:
            sandbox = await backend.start(SPEC)
            seen = await sandbox.exec(["sh", "-c", "nice; nice -n -1 nice 2> /dev/null"], timeout_s=10)
            assert seen.stdout.split() == [b"19", b"19"]
            await sandbox.close()

    asyncio.run(work())
