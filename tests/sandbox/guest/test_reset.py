"""Where the kernel lists no System V objects, as under gVisor, a reset accepts only empty tables."""

from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.provider import InProcessProvider

COUNT = """
import sys
sys.path.insert(0, "/run/turnwise")
from guest.reset import SYSV_TABLES, count_ipc
print([count_ipc(table, control) for table, control, _ in SYSV_TABLES])
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
