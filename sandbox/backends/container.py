"""Hardening of a container: the arguments that the Docker backend creates every sandbox with, and its socket buffers.

Under cgroup v2, the memory limit of a container includes buffers of TCP and UDP. Under v1 they have a separate limit,
which no engine sets. Without it, one sandbox can use up the memory that the kernel grants to TCP on the whole machine.
"""

import logging
import mmap
from functools import cache
from pathlib import Path
from typing import Any

from ..spec import SHM_MIB, SandboxSpec
from ..transport.listener import MOUNT
from .ownership import LABEL
from .seccomp import profile

LOG = logging.getLogger(__name__)

SOCKET_MEMORY_MIB = 16
"""Buffers of TCP and UDP of one sandbox, in addition to its memory limit."""
LIMIT_FILE = "memory.kmem.tcp.limit_in_bytes"
CAPABILITIES = ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE", "FOWNER")
"""Capabilities of the guest agent; commands have none."""
OPEN_FILES, OPEN_FILES_MAX = 1024, 4096
PTYS_MAX = 32
"""Pseudo-terminals of one sandbox; the machine has 3,072 for all containers together."""
TIME_WAIT_MAX = 0
"""Closed TCP connections that the kernel remembers: none, because they would survive a reset, with their ports."""

PAGES_PER_MIB = (1 << 20) // mmap.PAGESIZE
SYSTEM_V_SHARE = 0.5
"""Share of a sandbox's memory that System V shared memory may take."""
MESSAGE_QUEUES, MESSAGE_QUEUE_BYTES = 32, 64 << 10
SEMAPHORE_SETS, SEMAPHORES_PER_SET, SEMAPHORES, SEMAPHORE_CALLS = 128, 250, 8192, 32
"""The values of ``kernel.sem``, which has another order; ``SEMAPHORE_CALLS`` is the most operations of one call."""


def sysctls(memory_mib: int) -> dict[str, str]:
    """Return the limits of the sandbox's network and of System V objects.

    Such objects outlive the process that the kernel kills for their memory. Without the limits they could fill the
    sandbox's memory, and then the kernel sometimes kills the guest agent too.
    """
    return {
        "net.ipv4.tcp_max_tw_buckets": str(TIME_WAIT_MAX),
        "kernel.shmall": str(int(memory_mib * PAGES_PER_MIB * SYSTEM_V_SHARE)),
        "kernel.msgmni": str(MESSAGE_QUEUES),
        "kernel.msgmnb": str(MESSAGE_QUEUE_BYTES),
        "kernel.sem": f"{SEMAPHORES_PER_SET} {SEMAPHORES} {SEMAPHORE_CALLS} {SEMAPHORE_SETS}",
    }


def host_options(spec: SandboxSpec, folder: Path, first_uid: int, *, limit_terminals: bool) -> dict[str, Any]:
    """Return the arguments of ``APIClient.create_host_config`` for a sandbox.

    ``folder`` is mounted at ``MOUNT``, and ``first_uid`` owns the working directory.
    """
    writable = f"nr_inodes={spec.inodes},nosuid,nodev,exec"
    # Instead of ``binds``, whose missing source folders the engine would create.
    mounts: list[dict[str, Any]] = [{"Type": "bind", "Source": str(folder), "Target": MOUNT, "ReadOnly": True}]
    if limit_terminals:
        mounts.append(_terminals())
    return {
        "auto_remove": True,
        "cap_add": list(CAPABILITIES),
        "cap_drop": ["ALL"],
        "ipc_mode": "private",
        "log_config": {"type": "none"},
        "mem_limit": spec.memory_mib << 20,
        "memswap_limit": spec.memory_mib << 20,
        "mounts": mounts,
        "nano_cpus": int(spec.cpus * 1e9),
        "network_mode": "none",
        "pids_limit": spec.pids,
        "read_only": True,
        "security_opt": ["no-new-privileges:true", f"seccomp={profile()}"],
        "sysctls": sysctls(spec.memory_mib),
        "tmpfs": {
            "/workspace": f"size={spec.disk_mib}m,mode=0755,uid={first_uid},gid={first_uid},{writable}",
            "/tmp": f"size={spec.disk_mib}m,mode=1777,{writable}",  # noqa: S108
            "/dev/shm": f"size={SHM_MIB}m,mode=1777,{writable}",  # noqa: S108
        },
        "ulimits": [
            {"Name": "nofile", "Soft": OPEN_FILES, "Hard": OPEN_FILES_MAX},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
    }


def _terminals() -> dict[str, Any]:
    """Return the mount of ``/dev/pts`` with a limit, which the engine's own mount lacks.

    It is an anonymous volume, which the engine removes with the container, except in rare cases; its label lets
    ``reap`` find it then.
    """
    options = f"newinstance,nosuid,noexec,ptmxmode=0666,mode=0620,gid=5,max={PTYS_MAX}"
    driver = {"Name": "local", "Options": {"type": "devpts", "device": "devpts", "o": options}}
    return {
        "Type": "volume",
        "Target": "/dev/pts",
        "VolumeOptions": {"NoCopy": True, "Labels": {LABEL: "1"}, "DriverConfig": driver},
    }


def limit_socket_memory(container: str, pid: int) -> bool:
    """Limit the buffers of the sockets that a container of this machine will open; return whether they are limited.

    ``pid`` is its first process. Logs a warning, once per reason, where cgroup v1 applies and this process may not set
    the limit.
    """
    try:
        group = _memory_group(pid)
        if group is None:
            return True
        if container not in str(group):
            raise OSError(f"process {pid} is not of container {container}")
        (group / LIMIT_FILE).write_text(str(SOCKET_MEMORY_MIB << 20))
    except OSError as error:
        _warn(error.strerror or "the container is not of this machine")
        return False
    return True


@cache
def _warn(reason: str) -> None:
    LOG.warning(
        "the socket buffers of sandboxes are not limited, because this process cannot write their control groups (%s); "
        "run as root or use cgroup v2",
        reason,
    )


def _memory_group(pid: int) -> Path | None:
    """Return the folder of a process's group in the memory hierarchy of cgroup v1; None under cgroup v2."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _memory_mount() / path.lstrip("/")
    return None


def _memory_mount() -> Path:
    """Return the mount point of the memory hierarchy. Raises OSError."""
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(before.split(" ")[4])
    raise OSError("the memory hierarchy of cgroup v1 is not mounted")
