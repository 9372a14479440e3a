"""Putting the step server (``guest``) into a box: its files, and the command that starts it there."""

import shutil
from pathlib import Path

from .. import guest

INSIDE = "/run/turnwise"
"""Where the folder of a box is mounted, read-only."""
PACKAGE = "step"
SOCKET = "s"
BOOT = f"import sys; sys.path.insert(0, {INSIDE!r}); from {PACKAGE}.server import main; main(*sys.argv[1:])"


def prepare(folder: Path) -> Path:
    """Make the folder of a box, the step server in it; gives the path at which to listen for it."""
    folder.mkdir(mode=0o755)
    source = Path(guest.__file__).parent
    (folder / PACKAGE).mkdir()
    for file in source.glob("*.py"):
        shutil.copyfile(file, folder / PACKAGE / file.name)
    return folder / SOCKET


def command(python: str, user: str, ttl: float, *limits: str) -> list[str]:
    """What starts the step server inside; ``user`` is the payload's uid, ``-`` for the server's own."""
    return [python, "-I", "-S", "-B", "-c", BOOT, f"{INSIDE}/{SOCKET}", user, str(ttl), *limits]
