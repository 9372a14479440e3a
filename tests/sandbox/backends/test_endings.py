"""The error of a sandbox that ended names the cause: its commands broke it, or something outside ended it."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable

import pytest
from turnwise.sandbox import SandboxBroken, SandboxError, SandboxLost, SandboxSpec
from turnwise.sandbox.backends.docker import DockerBackend
from turnwise.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.docker

SPEC = SandboxSpec(memory_mib=128, disk_mib=32, read_mib=64)
FILL = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for folder in ("/workspace", "/tmp", "/dev/shm"):
    try:
        with open(f"{folder}/full", "wb", buffering=0) as file:
            while file.write(bytes(1 << 16)): pass
    except OSError:
        pass
for n in range(64):
    one = libc.shmget(0, 1 << 20, 0o1600)
    if one >= 0:
        ctypes.memset(libc.shmat(one, None, 0), 1, 1 << 20)
"""
"""Files and shared memory outlive the process that the kernel kills for them; no memory is left to the guest agent."""


def guest_pid(name: str) -> int:
    """Return the pid on this machine of the guest agent, the child of process 1 of a container."""
    top = subprocess.run(["docker", "top", name, "-eo", "pid,ppid"], capture_output=True, text=True, check=True).stdout
    pids = [tuple(map(int, line.split())) for line in top.splitlines()[1:]]
    first = next(pid for pid, parent in pids if parent not in {pid for pid, _ in pids})
    return next(pid for pid, parent in pids if parent == first)


OUTSIDE: dict[str, Callable[[str], object]] = {
    "docker kill": lambda name: subprocess.run(["docker", "kill", name], check=True, capture_output=True),
    "docker rm": lambda name: subprocess.run(["docker", "rm", "-f", name], check=False, capture_output=True),
    "docker stop": lambda name: subprocess.run(["docker", "stop", "-t", "2", name], check=True, capture_output=True),
    "kill of the guest agent": lambda name: os.kill(guest_pid(name), signal.SIGKILL),
    "end of the guest agent": lambda name: os.kill(guest_pid(name), signal.SIGTERM),
}


def ended(end: Callable[[Sandbox], object], first: str = "true") -> SandboxError:
    """Return the error of the next request of a sandbox that ran a program and that ``end`` ended."""

    async def work() -> SandboxError:
        backend = DockerBackend("endings")
        sandbox = await backend.start(SPEC)
        try:
            await sandbox.exec(["python3", "-c", first], timeout_s=20)
            await asyncio.to_thread(end, sandbox)
            for _ in range(40):
                await sandbox.read(".", timeout_s=20)
        except SandboxError as error:
            return error
        finally:
            await sandbox.close()
            await backend.close()
        raise AssertionError("the sandbox did not end")

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("how", "first"),
    [
        *(pytest.param(how, "", id=f"{how}, idle") for how in OUTSIDE),
        *(
            pytest.param(
                how,
                "kept = bytearray(1 << 30)",
                marks=() if how == "docker kill" else pytest.mark.soak,
                id=f"{how}, after an out-of-memory kill",
            )
            for how in OUTSIDE
        ),
    ],
)
def test_an_end_from_outside_is_a_lost_sandbox(how: str, first: str) -> None:
    error = ended(lambda sandbox: OUTSIDE[how](sandbox.id), first)
    assert type(error) is SandboxLost, error
    assert "outside" in str(error)


def test_a_sandbox_whose_memory_the_commands_fill_is_broken() -> None:
    error = ended(lambda sandbox: None, FILL)
    assert type(error) is SandboxBroken, error
    assert "memory limit" in str(error)
