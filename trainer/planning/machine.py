"""The memory that a machine has: of the host, within its container, and of each GPU."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...errors import TurnwiseError

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
PROBE_TIMEOUT_S = 10.0
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes of memory of one host."""

    memory: int
    gpus: tuple[int, ...] | None = None
    """Bytes of each GPU; None if they are not known."""


def this_machine() -> Machine:
    """Return the memory of this host, or of its container if that is less, and of the GPUs that `nvidia-smi` lists."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in map(Path, CGROUP_LIMITS):
        if path.is_file() and (limit := path.read_text().strip()).isdigit():
            memory = min(memory, int(limit))
    return Machine(memory, _gpus())


def _gpus() -> tuple[int, ...] | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(int(line) << 20 for line in found.stdout.split() if line.isdigit()) or None


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``24GiB``, ``80GB`` or ``512M``.

    Raises:
        TurnwiseError: the text is not a size.
    """
    match = SIZE.fullmatch(text.strip())
    if match is None:
        raise TurnwiseError(f"`{text}` is not a size: write a number with a unit, such as `24GiB` or `80GB`")
    return int(float(match[1]) * UNITS[match[2].lower()])
