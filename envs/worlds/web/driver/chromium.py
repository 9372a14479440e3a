"""Chromium's processes, which the launcher starts under another user, and the pipe that Playwright and driver share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from .launcher import MAX_ARGUMENTS_BYTES, install, peer_uid
from .protocol import Connection

PROGRAM = "/usr/bin/chromium-headless-shell"
FEATURES = {
    "disable": ("BackgroundResourceFetch", "RenderDocument", "ScriptStreaming"),
    "enable": ("NetworkServiceInProcess2",),
}
"""Features of Chromium that halve the processor time of a page load here, because a sandbox has few processors: other
threads neither fetch a script nor compile it, although the renderer has compiled it for an earlier episode; a document
replaces another one in the same frame; requests are made by the process of the browser.
"""
END_TIMEOUT_S = 5.0
"""Limit of the launcher's killing of all processes."""


class Chromium:
    """One browser at a time: ``start`` lets Playwright start it, ``connection`` is its pipe while it runs."""

    def __init__(self, folder: str, launcher: str) -> None:
        """``folder`` is private to the driver; ``launcher`` is the socket of the launcher."""
        self.executable = f"{folder}/chromium"
        self.launcher = launcher
        self.connection: Connection | None = None
        self._socket = f"{folder}/playwright"
        self._listening = socket.socket(socket.AF_UNIX)
        self._sockets: list[socket.socket] = []
        """The connections to the launcher and to Playwright's end."""

    def listen(self) -> None:
        """Install the program that Playwright starts, and wait for it."""
        install(self.executable, self._socket)
        self._listening.bind(self._socket)
        self._listening.listen()

    async def start(self, launch: Callable[[], Any]) -> Any:
        """Return the result of ``launch``, which makes Playwright start ``executable`` and wait for its answers.

        Raises:
            OSError: the launcher does not answer, or is not the one of the sandbox.
        """
        await self.end()
        launching = asyncio.ensure_future(launch())
        accepting = asyncio.ensure_future(asyncio.to_thread(self._accept))
        await asyncio.wait({launching, accepting}, return_when=asyncio.FIRST_COMPLETED)
        if not accepting.done():
            # Playwright failed before it started the program: the thread waits for the next start.
            self._wake()
        try:
            chromium, playwright = await accepting
            if chromium:
                self.connection = Connection(chromium, playwright, self._on_closed)
                await self.connection.open()
            return await launching
        except BaseException:
            launching.cancel()
            await self.end()
            raise

    async def end(self) -> None:
        """Kill all processes of the browser's user and wait for their end. Raises OSError."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        ended, self._sockets = self._sockets, []
        await asyncio.to_thread(_finish, ended)

    def _on_closed(self) -> None:
        """Close the ends of Playwright and of the launcher, which report to both that the browser has ended."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_WR)

    def _wake(self) -> None:
        with socket.socket(socket.AF_UNIX) as waking:
            waking.connect(self._socket)

    def _accept(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Wait for Playwright's end, start Chromium, and return the driver's ends; empty tuples after ``_wake``."""
        playwright, _ = self._listening.accept()
        message, ends, _, _ = socket.recv_fds(playwright, MAX_ARGUMENTS_BYTES, 2)
        if len(ends) != 2:
            playwright.close()
            return (), ()  # type: ignore[return-value]
        launcher = socket.socket(socket.AF_UNIX)
        self._sockets = [playwright, launcher]
        launcher.settimeout(END_TIMEOUT_S)
        launcher.connect(self.launcher)
        if peer_uid(launcher) != browser_uid():
            raise ConnectionError("the socket of the launcher belongs to another user")
        theirs_read, ours_write = os.pipe()
        ours_read, theirs_write = os.pipe()
        arguments = json.dumps([PROGRAM, *with_features(json.loads(message), FEATURES)]).encode()
        socket.send_fds(launcher, [arguments], [theirs_read, theirs_write])
        os.close(theirs_read)
        os.close(theirs_write)
        return (ours_read, ours_write), (ends[0], ends[1])


def with_features(arguments: Sequence[str], features: Mapping[str, Sequence[str]]) -> list[str]:
    """Return Chromium's arguments with more features, by ``disable`` and ``enable``, in one list of each.

    Of several lists, Chromium reads the last one only, and Playwright has its own.
    """
    found = list(arguments)
    for kind, names in features.items():
        option = f"--{kind}-features="
        listed = [one.removeprefix(option) for one in found if one.startswith(option)]
        found = [one for one in found if not one.startswith(option)]
        found.append(option + ",".join([*listed, *names]))
    return found


def browser_uid() -> int:
    """Return the uid that Chromium runs as; the driver's is the next one."""
    return os.getuid() - 1


def _finish(ended: list[socket.socket]) -> None:
    """Wait until the other sides have closed, ``END_TIMEOUT_S`` at most, and close these."""
    until = monotonic() + END_TIMEOUT_S
    for one in ended:
        with one:
            try:
                one.shutdown(socket.SHUT_WR)
                one.settimeout(max(0.01, until - monotonic()))
                while one.recv(1):
                    one.settimeout(max(0.01, until - monotonic()))
            except OSError:
                # Nothing is left to wait for.
                pass
