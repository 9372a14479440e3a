"""Install the guest agent in a sandbox: the folder to mount, and the command that starts the agent.

The agent connects to an address of the host: the path of a unix socket, or ``tcp:HOST:PORT`` with a token in the
environment variable ``guest.frames.TOKEN_VARIABLE``, which the agent removes.
"""

import os
import shutil
import tempfile
from pathlib import Path

from .. import guest
from ..errors import NoEngine

MOUNT = "/run/turnwise"
"""Read-only mount point of a sandbox's folder."""
PACKAGE = "guest"
SOCKET = "s"
SOCKETS_VARIABLE = "TURNWISE_SOCKETS"
"""Environment variable with the folder that has the sockets of sandboxes; default: the temporary folder."""
SOCKET_PATH_MAX_BYTES = 107
LONGEST_NAME = "turnwise-0123456789abcdef"
"""A name of a sandbox."""
BOOT = "import sys; sys.path.insert(0, {folder!r}); from {package}.server import main; main(*sys.argv[1:])"


def make_sockets_folder() -> Path:
    """Return a new folder for the folders of a backend's sandboxes, in ``TURNWISE_SOCKETS`` or the temporary folder.

    Raises:
        NoEngine: the folder cannot be made, or its path is too long for unix sockets.
    """
    parent = os.environ.get(SOCKETS_VARIABLE) or tempfile.gettempdir()
    what = f"the folder `{parent}` cannot have the sockets of sandboxes"
    try:
        folder = Path(tempfile.mkdtemp(prefix="tw-", dir=parent))
        folder.chmod(0o711)
    except OSError as error:
        raise NoEngine(f"{what} ({error.strerror}): set `{SOCKETS_VARIABLE}` to a folder that exists") from error
    if len(os.fsencode(folder / LONGEST_NAME / SOCKET)) > SOCKET_PATH_MAX_BYTES:
        folder.rmdir()
        raise NoEngine(f"{what} (its path is too long): set `{SOCKETS_VARIABLE}` to a folder with a shorter path")
    return folder


def prepare_folder(folder: Path) -> Path:
    """Create a sandbox's folder with the guest agent in it, and return the path of the socket to listen on."""
    folder.mkdir(mode=0o755)
    source = Path(guest.__file__).parent
    (folder / PACKAGE).mkdir()
    for file in source.glob("*.py"):
        shutil.copyfile(file, folder / PACKAGE / file.name)
    return folder / SOCKET


def guest_command(
    python: str, user: str, ttl_s: float, *limits: str, folder: str = MOUNT, address: str | None = None
) -> list[str]:
    """Return the command that starts the guest agent; its arguments are those of ``guest.server.main``.

    ``folder`` is the one of ``prepare_folder``, seen from inside; ``address`` is the socket in it by default.
    """
    boot = BOOT.format(folder=folder, package=PACKAGE)
    return [python, "-I", "-S", "-B", "-c", boot, address or f"{folder}/{SOCKET}", user, str(ttl_s), *limits]
