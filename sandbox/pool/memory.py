"""Memory of this machine that a pool may promise to sandboxes."""

from pathlib import Path

SANDBOX_SHARE = 0.75
"""Share of the machine's memory for sandboxes if the settings name no amount."""
GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def default_memory_mib() -> int:
    """Return ``SANDBOX_SHARE`` of the memory that this process's control group, or else the machine, has in MiB."""
    total = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            total = int(line.split()[1]) << 10
    limits = [int(text) for path in GROUP_LIMITS if (text := _read(path)).isdigit()]
    return int(min([total, *limits]) * SANDBOX_SHARE) >> 20


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
