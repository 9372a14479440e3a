"""Install the guest agent in a sandbox: the folder to mount and the command that starts the agent."""

import shutil
from pathlib import Path

from .. import guest

MOUNT = "/run/turnwise"
"""Read-only mount point of a sandbox's folder."""
PACKAGE = "guest"
SOCKET = "s"
BOOT = f"import sys; sys.path.insert(0, {MOUNT!r}); from {PACKAGE}.server import main; main(*sys.argv[1:])"


def prepare_folder(folder: Path) -> Path:
    """Create a sandbox's folder with the guest agent in it, and return the path of the socket to listen on."""
    folder.mkdir(mode=0o755)
    source = Path(guest.__file__).parent
    (folder / PACKAGE).mkdir()
    for file in source.glob("*.py"):
        shutil.copyfile(file, folder / PACKAGE / file.name)
    return folder / SOCKET


def guest_command(python: str, user: str, ttl_s: float, *limits: str) -> list[str]:
    """Return the command that starts the guest agent; its arguments are those of ``guest.server.main``."""
    return [python, "-I", "-S", "-B", "-c", BOOT, f"{MOUNT}/{SOCKET}", user, str(ttl_s), *limits]
