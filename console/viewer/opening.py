"""Open a page in a viewer that runs already: a command asks through a Unix socket, and the tabs that are shown move.

The socket lies in a folder of this user alone, named by the store, so that no page of any site and no other user can
reach it. A socket that nobody listens on is of a viewer that is gone. Tabs listen with server-sent events
(``follow.js``), and stop while they are hidden.
"""

import asyncio
import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ECONNREFUSED
from hashlib import sha256
from pathlib import Path

from sqlalchemy import URL
from starlette.responses import Response, StreamingResponse

KEEPALIVE_INTERVAL_S = 15.0
TIMEOUT_S = 5.0
REQUEST_BYTES_MAX = 8192


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer of a running viewer."""

    address: str
    """The URL of the page, with the token if one is needed."""
    tabs: int
    """Tabs that moved."""


class Tabs:
    """The tabs that listen."""

    def __init__(self) -> None:
        self._queues: dict[asyncio.Queue[str], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    def open(self, path: str) -> int:
        """Move every listening tab to a page; return their number. May be called from any thread."""
        with self._lock:
            listening = list(self._queues.items())
        for queue, loop in listening:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, path)
        return len(listening)

    def events(self) -> Response:
        """Return the stream of one tab: the pages to open."""
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        with self._lock:
            self._queues[queue] = asyncio.get_running_loop()
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    path = await asyncio.wait_for(queue.get(), KEEPALIVE_INTERVAL_S)
                    yield f"event: page\ndata: {json.dumps(path)}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            with self._lock:
                del self._queues[queue]


def socket_path(store: URL) -> Path | None:
    """Return the path of the socket of a store's viewer; None if this user has no folder that only they can enter."""
    name = str(Path(store.database or "").resolve()) if store.get_backend_name() == "sqlite" else ""
    digest = sha256(f"{store.set(database=name or store.database)}".encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"turnwise-view-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder / f"{digest}.sock" if is_own else None


@contextmanager
def answering(path: Path | None, tabs: Tabs, address: str, token: str | None) -> Iterator[None]:
    """Inside the block, answer the commands that open pages; the newest viewer of a store replaces the socket."""
    if path is None:
        yield
        return
    aside = path.with_suffix(f".{os.getpid()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            aside.unlink(missing_ok=True)
            listener.bind(str(aside))
            aside.chmod(0o600)
            own = aside.stat().st_ino
            listener.listen()
            aside.replace(path)
            _remove_left(path.parent)
        except OSError:  # without a socket, a command opens a viewer of its own
            yield
            return
        threading.Thread(target=_answer, args=(listener, tabs, address, token), daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                if path.stat().st_ino == own:
                    path.unlink()


def _remove_left(folder: Path) -> None:
    """Remove the sockets of viewers that were killed."""
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
            if probe.connect_ex(str(path)) == ECONNREFUSED:
                path.unlink()


def _answer(listener: socket.socket, tabs: Tabs, address: str, token: str | None) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, suppress(OSError, ValueError):
            connection.settimeout(TIMEOUT_S)
            path = json.loads(_line(connection))
            if not is_page(path):
                continue
            opened = {"address": with_token(address + path, token), "tabs": tabs.open(path)}
            connection.sendall(json.dumps(opened).encode() + b"\n")


def open_in_viewer(path: Path | None, page: str) -> Opened | None:
    """Open a page in the running viewer of a store; None if none runs."""
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(page).encode() + b"\n")
            answer = json.loads(_line(connection))
        except (OSError, ValueError):
            return None
    return Opened(str(answer["address"]), int(answer["tabs"]))


def is_page(path: object) -> bool:
    """Return whether a value is the path of a page of this server, and names no other host."""
    return isinstance(path, str) and path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()


def with_token(address: str, token: str | None) -> str:
    """Return an address of a page with the token that opens it."""
    page, hash_, place = address.partition("#")
    return address if token is None else f"{page}{'&' if '?' in page else '?'}token={token}{hash_}{place}"


def _line(connection: socket.socket) -> bytes:
    """Return what the other side sends up to the first newline. Raises ValueError: it sends more, or nothing."""
    content = b""
    while not content.endswith(b"\n"):
        chunk = connection.recv(4096)
        content += chunk
        if not chunk or len(content) > REQUEST_BYTES_MAX:
            raise ValueError("no line")
    return content
