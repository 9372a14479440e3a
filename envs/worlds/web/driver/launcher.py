"""Start Chromium as a user without rights to anything of the driver, whose uid is the next one.

The driver connects and sends the arguments of Chromium, as JSON, with the two ends of its pipe. Chromium lives as long
as that connection: its end kills every process of the launcher's user, however many a page made of them.

In place of Chromium, Playwright starts a program that passes the ends of its pipe to the driver (``install``). This
program lives as long as the browser, because Playwright watches and kills it in the browser's place. It starts with
every browser, so functions that it does not call import what only they need.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import struct
import sys
from pathlib import Path

MAX_ARGUMENTS_BYTES = 1 << 16
MAX_DATA_BYTES = 640 << 20
"""Writable memory per Chromium process; a page at rest has 230 MiB. A process that exceeds it crashes long before the
sandbox runs out of memory.
"""
PROFILE = "--user-data-dir="
READ_END, WRITE_END = 3, 4
"""The descriptors on which Chromium expects its pipe, and Playwright gives it."""
CREDENTIALS = struct.Struct("3i")
SCRIPT = """#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, {folder!r})
from driver.launcher import pass_pipe
pass_pipe({socket!r})
"""
"""The program that Playwright starts in place of Chromium."""


def main(path: str) -> None:
    """Listen on a unix socket at ``path`` and start one Chromium after another for the driver."""
    os.umask(0o077)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        # The uid of the other end decides who is served.
        Path(path).chmod(0o666)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            with connection:
                if peer_uid(connection) == os.getuid() + 1:
                    serve(connection)


def peer_uid(connection: socket.socket) -> int:
    """Return the uid of the process at the other end of a unix socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return int(CREDENTIALS.unpack(found)[1])


def serve(connection: socket.socket) -> None:
    """Run one Chromium until the driver closes the connection, then kill every other process of this user."""
    import shutil
    import tempfile

    message, ends, _, _ = socket.recv_fds(connection, MAX_ARGUMENTS_BYTES, 2)
    if len(ends) != 2:
        return
    profile = tempfile.mkdtemp(prefix="profile-")
    arguments = [load for load in json.loads(message) if not load.startswith(PROFILE)]
    child = os.fork()
    if child == 0:
        try:
            become([*arguments, PROFILE + profile], ends)
        except BaseException as error:  # noqa: BLE001 - written to the log of the launcher
            os.write(2, f"{arguments[:1]}: {error}\n".encode())
        os._exit(127)
    for end in ends:
        os.close(end)
    with contextlib.suppress(OSError):
        connection.recv(1)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    os.waitpid(child, 0)
    shutil.rmtree(profile, ignore_errors=True)


def become(argv: list[str], ends: list[int]) -> None:
    """Turn the forked child into Chromium. Raises OSError."""
    import resource

    os.setsid()
    # Copies above the final numbers first: a received end may have the number of the other's place.
    copies = [os.dup(end) for end in ends] if min(ends) <= WRITE_END else ends
    for number, end in zip((READ_END, WRITE_END), copies, strict=True):
        if end != number:
            os.dup2(end, number)
    for number in (READ_END, WRITE_END):
        os.set_inheritable(number, True)
    os.closerange(WRITE_END + 1, 256)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DATA_BYTES, MAX_DATA_BYTES))
    # Chromium writes every message of a page to stderr, which in a file would fill the disk.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.execv(argv[0], argv)  # noqa: S606


def install(path: str, driver_socket: str) -> None:
    """Write the executable file that Playwright starts; it connects to the driver's socket."""
    folder = str(Path(__file__).resolve().parents[1])
    file = Path(path)
    file.write_text(SCRIPT.format(folder=folder, socket=driver_socket))
    file.chmod(stat.S_IRWXU)


def pass_pipe(driver_socket: str) -> None:
    """Pass the pipe and the arguments to the driver, and wait until it closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(driver_socket)
        socket.send_fds(connection, [json.dumps(sys.argv[1:]).encode()], [READ_END, WRITE_END])
        for number in (READ_END, WRITE_END):
            os.close(number)
        connection.recv(1)
