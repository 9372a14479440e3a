"""The local backend refuses untrusted specs, and its sandboxes die with their owner."""

import asyncio
import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.errors import NoEngine, NoImage, NotTrusted, SandboxBroken, SandboxLost, StartFailed
from turnwise.sandbox.spec import SandboxSpec
from turnwise.tests.sandbox.backends.processes import processes_of, running

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)
OWNER = """
import asyncio, sys
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.spec import SandboxSpec

async def main():
    backend = BubblewrapBackend()
    sandbox = await backend.start(SandboxSpec(memory_mib=128, disk_mib=8, trusted=True))
    await sandbox.exec(["sh", "-c", "setsid sleep 61.{0} >/dev/null 2>&1 & sleep 0.1"], timeout_s=20)
    print("ready", flush=True)
    await sandbox.exec(["sh", "-c", "sleep 62.{0} & trap '' HUP TERM; sleep 600"], timeout_s=600)

asyncio.run(main())
"""


def gone(mark: str, timeout_s: float) -> bool:
    ends = time.monotonic() + timeout_s
    while running(mark):
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True


def test_a_task_that_needs_the_programs_of_an_image_is_refused() -> None:
    async def main() -> None:
        backend = BubblewrapBackend(allow_untrusted=True)
        with pytest.raises(NoImage, match="programs of the image `desktop`: use Docker"):
            await backend.start(SPEC.model_copy(update={"image": "desktop"}))
        await backend.close()

    asyncio.run(main())


def test_untrusted_spec_is_refused_unless_allowed() -> None:
    async def work() -> None:
        untrusted = SPEC.model_copy(update={"trusted": False})
        backend = BubblewrapBackend()
        with pytest.raises(NotTrusted, match=r"^the local backend .* not declared trusted: use Docker"):
            await backend.start(untrusted)
        await backend.close()
        allowed = BubblewrapBackend(allow_untrusted=True)
        sandbox = await allowed.start(untrusted)
        assert (await sandbox.exec(["true"], timeout_s=20)).exit_code == 0
        await sandbox.close()
        await allowed.close()

    asyncio.run(work())


def test_sandbox_dies_with_its_owner() -> None:
    mark = str(time.monotonic_ns())
    owner = subprocess.Popen([sys.executable, "-c", OWNER.format(mark)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == b"ready\n"
        ends = time.monotonic() + 20
        while not (running(f"61.{mark}") and running(f"62.{mark}")):
            assert time.monotonic() < ends
            time.sleep(0.05)
        owner.kill()
        owner.wait()
    assert gone(f"61.{mark}", 10)
    assert gone(f"62.{mark}", 10)


def test_closed_sandbox_leaves_no_process_and_no_file() -> None:
    mark = f"63.{time.monotonic_ns()}"

    async def work() -> Path:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC)
        await sandbox.exec(["sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &"], timeout_s=20)
        assert [row.id for row in await backend.list_sandboxes()] == [sandbox.id]
        await sandbox.close()
        assert await backend.list_sandboxes() == []
        await backend.close()
        return backend.folder

    folder = asyncio.run(work())
    assert gone(mark, 10)
    assert not folder.exists()


def test_sandbox_killed_from_outside_is_lost() -> None:
    async def work() -> None:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC)
        running_one = asyncio.create_task(sandbox.exec(["sleep", "600"], timeout_s=600))
        await asyncio.sleep(0.3)
        mine = processes_of(sandbox.id)
        for pid in mine:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        assert mine
        with pytest.raises(SandboxLost):
            await running_one
        assert not sandbox.alive
        await sandbox.close()
        await backend.close()

    asyncio.run(work())


def test_failed_start_reports_the_output_of_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        backend = BubblewrapBackend()
        monkeypatch.setattr(backend, "python", "/usr/bin/no-such-python")
        with pytest.raises(StartFailed, match=r"bubblewrap could not start a sandbox: .*no-such-python"):
            await backend.start(SPEC)
        assert list(backend.folder.iterdir()) == []
        await backend.close()

    asyncio.run(work())


def test_missing_bubblewrap_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngine, match="local sandboxes need bubblewrap: apt-get install bubblewrap"):
        make_backend("local")


def test_pipes_that_a_background_process_keeps_open_take_one_page() -> None:
    """Their pages count for the uid of the guest agent, which every container's agent shares."""
    size = "import fcntl, time; time.sleep(0.2); open('size', 'w').write(str(fcntl.fcntl(1, 1032)))"

    async def work() -> None:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC)
        await sandbox.exec(["sh", "-c", 'python3 -c "$0" &', size], timeout_s=10)
        ends = time.monotonic() + 10
        while not (found := (await sandbox.read(".", timeout_s=10)).get("size")):
            assert time.monotonic() < ends
            await asyncio.sleep(0.05)
        assert found == b"4096"
        await sandbox.close()
        await backend.close()

    asyncio.run(work())


def test_reset_that_exceeds_its_timeout_loses_the_sandbox() -> None:
    async def work() -> None:
        backend = BubblewrapBackend()
        sandbox = await backend.start(SPEC)
        await sandbox.write({f"{number}": b"" for number in range(100)}, timeout_s=10)
        with pytest.raises(SandboxBroken, match="not finished before the timeout"):
            await sandbox.reset(timeout_s=0)
        await sandbox.close()
        await backend.close()

    asyncio.run(work())


def test_a_cancelled_start_leaves_no_process() -> None:
    async def work() -> str:
        backend = BubblewrapBackend()
        for wait_s in (0.0, 0.002, 0.004, 0.006, 0.01, 0.015, 0.02, 0.025, 0.03):
            starting = asyncio.create_task(backend.start(SPEC))
            await asyncio.sleep(wait_s)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await (await starting).close()
        async with asyncio.timeout(4):
            await backend.close()
        return str(backend.folder)

    folder = asyncio.run(work())
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if folder.encode() in contents(path)]
    assert left == []


def contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
