"""The program that Playwright starts instead of Chromium: it passes the ends of Playwright's pipe to the driver.

The program lives as long as the browser, because Playwright watches and kills it in the browser's place.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from pathlib import Path

READ_END, WRITE_END = 3, 4
"""The descriptors on which Playwright gives the pipe to a browser."""
SCRIPT = """#!/usr/bin/python3 -IS
import sys
sys.path.insert(0, {folder!r})
from driver.playwright_end import main
main({socket!r})
"""


def install(path: str, driver_socket: str) -> None:
    """Write the executable file that Playwright starts; it connects to the driver's socket."""
    folder = str(Path(__file__).resolve().parents[1])
    file = Path(path)
    file.write_text(SCRIPT.format(folder=folder, socket=driver_socket))
    file.chmod(stat.S_IRWXU)


def main(driver_socket: str) -> None:
    """Pass the pipe and the arguments to the driver, and wait until it closes the connection."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(driver_socket)
        socket.send_fds(connection, [json.dumps(sys.argv[1:]).encode()], [READ_END, WRITE_END])
        for number in (READ_END, WRITE_END):
            os.close(number)
        connection.recv(1)
