"""What is the local backend's own: whom it refuses, and that a box dies with its owner."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.errors import NoEngine, NotTrusted, SandboxLost, StartFailed
from turnwise.sandbox.spec import SandboxSpec

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)
OWNER = """
import asyncio, sys
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.spec import SandboxSpec

async def main():
    held = BubblewrapBackend()
    box = await held.start(SandboxSpec(memory_mib=128, disk_mib=8, trusted=True))
    await box.exec(["sh", "-c", "setsid sleep 61.{0} >/dev/null 2>&1 & sleep 0.1"], timeout_s=20)
    print("ready", flush=True)
    await box.exec(["sh", "-c", "sleep 62.{0} & trap '' HUP TERM; sleep 600"], timeout_s=600)

asyncio.run(main())
"""


def running(mark: str) -> list[int]:
    """Processes of this machine with ``mark`` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in arguments:
            found.append(int(path.parent.name))
    return found


def gone(mark: str, seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while running(mark):
        if time.monotonic() > ends:
            return False
        time.sleep(0.05)
    return True


def test_what_is_not_trusted_is_refused_unless_the_person_allows_it() -> None:
    async def work() -> None:
        untrusted = SPEC.model_copy(update={"trusted": False})
        held = BubblewrapBackend()
        with pytest.raises(NotTrusted, match=r"^the local backend .* not declared trusted: use Docker"):
            await held.start(untrusted)
        await held.close()
        allowed = BubblewrapBackend(allow_untrusted=True)
        box = await allowed.start(untrusted)
        assert (await box.exec(["true"], timeout_s=20)).exit_code == 0
        await box.close()
        await allowed.close()

    asyncio.run(work())


def test_a_box_dies_with_its_owner() -> None:
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


def test_closing_a_box_ends_all_of_it_and_leaves_no_file() -> None:
    mark = f"63.{time.monotonic_ns()}"

    async def work() -> Path:
        held = BubblewrapBackend()
        box = await held.start(SPEC)
        await box.exec(["sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &"], timeout_s=20)
        assert [row.id for row in await held.list_sandboxes()] == [box.id]
        await box.close()
        assert await held.list_sandboxes() == []
        await held.close()
        return held.folder

    folder = asyncio.run(work())
    assert gone(mark, 10)
    assert not folder.exists()


def test_a_box_that_is_killed_from_outside_is_lost() -> None:
    async def work() -> None:
        held = BubblewrapBackend()
        box = await held.start(SPEC)
        running_one = asyncio.create_task(box.exec(["sleep", "600"], timeout_s=600))
        await asyncio.sleep(0.3)
        mine = [pid for pid in running("/run/turnwise/s") if box.id in Path(f"/proc/{pid}/mountinfo").read_text()]
        for pid in mine:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        assert mine
        with pytest.raises(SandboxLost):
            await running_one
        assert not box.alive
        await box.close()
        await held.close()

    asyncio.run(work())


def test_a_start_that_fails_says_what_bubblewrap_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        held = BubblewrapBackend()
        monkeypatch.setattr(held, "python", "/usr/bin/no-such-python")
        with pytest.raises(StartFailed, match=r"bubblewrap could not start a sandbox: .*no-such-python"):
            await held.start(SPEC)
        assert list(held.folder.iterdir()) == []
        await held.close()

    asyncio.run(work())


def test_without_bubblewrap_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngine, match="local sandboxes need bubblewrap: apt-get install bubblewrap"):
        make_backend("local")
    with pytest.raises(ValueError, match="unknown sandbox backend 'podman'; the backends are auto, docker, local"):
        make_backend("podman")
