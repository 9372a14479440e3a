"""Limit of the socket buffers of a container where its memory limit does not include them (cgroup v1).

Under cgroup v2, the memory limit includes buffers of TCP and UDP. Under v1 they have a separate limit, which no engine
sets. Without it, one sandbox can use up the memory that the kernel grants to TCP on the whole machine.
"""

import logging
from functools import cache
from pathlib import Path

LOG = logging.getLogger(__name__)

SOCKET_MEMORY_MIB = 16
"""Buffers of TCP and UDP of one sandbox, in addition to its memory limit."""
LIMIT_FILE = "memory.kmem.tcp.limit_in_bytes"


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
