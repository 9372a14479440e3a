"""A reset accepts only empty tables of System V objects, also where the kernel lists none, as under gVisor."""

from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.provider import InProcessProvider

COUNT = """
import sys
sys.path.insert(0, "/run/turnwise")
from guest.reset import SYSV_TABLES, count_ipc
print([count_ipc(table, control) for table, control, _ in SYSV_TABLES])
"""
ENDING = """
import ctypes, os, sys, threading, time
sys.path.insert(0, "/run/turnwise")
from guest.reset import await_no_ipc
libc = ctypes.CDLL(None)
libc.shmat.restype, libc.shmdt.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
one = libc.shmget(0, 4096, 0o1600)
where = libc.shmat(one, None, 0)
libc.shmctl(one, 0, None)
try:
    await_no_ipc(time.monotonic() + 0.1)
except OSError as error:
    print(error)
threading.Timer(0.1, lambda: libc.shmdt(where)).start()
await_no_ipc(time.monotonic() + 5)
print("cleared")
"""
SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)


def test_system_v_objects_are_counted_without_their_list() -> None:
    provider = InProcessProvider("local", capacity=1, warm=0)
    with provider.lease(SPEC, timeout_s=30) as sandbox:
        counts = []
        for script in ("true", "ipcmk -M 4096 -Q -S 3", "ipcmk -S 2", "ipcrm --all"):
            sandbox.exec(["sh", "-c", script], timeout_s=10)
            counts.append(sandbox.exec(["python3", "-c", COUNT], timeout_s=10).stdout.decode().strip())
    assert counts == ["[0, 0, 0]", "[1, 1, 1]", "[1, 1, 2]", "[0, 0, 0]"]
    provider.close()


def test_a_reset_waits_for_the_memory_of_ended_processes() -> None:
    provider = InProcessProvider("local", capacity=1, warm=0)
    with provider.lease(SPEC, timeout_s=30) as sandbox:
        done = sandbox.exec(["python3", "-c", ENDING], timeout_s=10)
    assert done.stdout.decode().splitlines() == ["cannot remove 1 shm", "cleared"], done.stderr.decode()
    provider.close()
