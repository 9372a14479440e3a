"""The DevTools protocol over Chromium's pipe, shared with Playwright: the driver's own sessions next to Playwright's.

Playwright starts a browser and expects its pipe. It gets one end of a pipe whose other end is here: every message is
passed on, except those of the driver's own sessions. A message thus reaches the driver without Playwright's Node
process, which costs more than Chromium's answer. Events and answers of a session arrive in the order of Chromium.

Chromium reports every request once per session, so Playwright's sessions with pages get these events only once an
action of Playwright needs them (``report_requests``).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

try:
    from playwright.async_api import Error as PlaywrightError
except ModuleNotFoundError:
    # Only the sandbox image contains Playwright; on the host, tests import modules that name the class.
    class PlaywrightError(Exception):  # type: ignore[no-redef]
        """Stands in for Playwright's class."""


__all__ = ["GONE", "Connection", "PlaywrightError", "ProtocolError", "Session"]

GONE = "has been closed"
"""The substring of the error for any call on a closed tab."""
OWN_IDS = 1 << 30
"""First id of the driver's own commands outside of sessions; Playwright counts from 1."""
PIPE_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 256 << 20
"""A longer message ends the connection."""
F_SETPIPE_SZ = 1031
SESSION = re.compile(rb'"sessionId":"([0-9A-F]+)"\}$')
"""The end of a message of a session. Text of a page cannot imitate it: its quotes are escaped."""
SESSION_CHARS = 64
OWN_ANSWER = re.compile(rb'\{"id":([0-9]{10,}),')
EVENT = re.compile(rb'\{"method":"([A-Za-z.]+)"')
REPORT_REQUESTS = b'"method":"Network.enable"'
"""In a command of Playwright. Text in a command cannot imitate it: its quotes are escaped."""
DETACHED = re.compile(rb'\{"method":"Target\.detachedFromTarget","params":\{"sessionId":"([0-9A-F]+)"')

BUTTONS = {"left": 1, "right": 2, "middle": 4}
"""Bits of the pressed buttons."""

Listener = Callable[[Mapping[str, Any]], object]


class ProtocolError(PlaywrightError):  # type: ignore[misc]
    """Chromium refused a command, or the tab of a session is closed."""


class ScriptError(PlaywrightError):  # type: ignore[misc]
    """A script of the task or of the driver raised in the page."""


class Session:
    """One session of the driver with a page, or with the browser."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self.connection = connection
        self.id = session_id
        self.closed = ""
        """The reason, once no further command is possible."""
        self.pending: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self.listeners: dict[str, list[Listener]] = {}
        self.ended = asyncio.Event()
        """Set once no further command is possible."""
        connection.sessions[session_id.encode()] = self

    def on(self, event: str, listener: Listener) -> None:
        """Call ``listener`` with the parameters of each such event."""
        self.listeners.setdefault(event, []).append(listener)

    def start(self, method: str, params: Mapping[str, Any] | None = None) -> asyncio.Future[dict[str, Any]]:
        """Send a command and return the future of its result, which raises ProtocolError."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self.closed:
            _fail(future, self.closed)
            return future
        number = self.connection.next_id()
        self.pending[number] = (method, future)
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if self.id:
            message["sessionId"] = self.id
        # Chromium refuses half of a surrogate pair without naming the command.
        self.connection.write(json.dumps(message, ensure_ascii=False).encode(errors="replace"))
        return future

    async def send(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a command and return its result.

        Raises:
            ProtocolError: Chromium refused the command, or the tab is closed.
        """
        return await self.start(method, params)

    async def move(self, x: float, y: float) -> None:
        """Move the pointer, in CSS pixels of the window. Raises ProtocolError."""
        await self.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y, "button": "none"})

    async def click(self, x: float, y: float, button: str = "left", count: int = 1) -> None:
        """Move the pointer and click ``count`` times. Raises ProtocolError."""
        point = {"x": x, "y": y}
        sent = [self.start("Input.dispatchMouseEvent", {**point, "type": "mouseMoved", "button": "none"})]
        for number in range(1, count + 1):
            pressed = {**point, "button": button, "clickCount": number}
            down = {**pressed, "type": "mousePressed", "buttons": BUTTONS[button], "force": 0.5}
            sent.append(self.start("Input.dispatchMouseEvent", down))
            sent.append(self.start("Input.dispatchMouseEvent", {**pressed, "type": "mouseReleased", "buttons": 0}))
        await asyncio.gather(*sent)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or of its promise, as JSON allows.

        Raises:
            ScriptError: the expression raised.
            ProtocolError: the page was replaced or closed.
        """
        request = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return _value(await self.send("Runtime.evaluate", request))

    async def call(self, handle: str, function: str, *arguments: Any) -> Any:
        """Return the value of a function called on a remote object, as JSON allows.

        Raises:
            ScriptError: the function raised, as one of the page may that it calls.
            ProtocolError: the page was replaced or closed.
        """
        request = {
            "objectId": handle,
            "functionDeclaration": function,
            "arguments": [{"value": argument} for argument in arguments],
            "returnByValue": True,
        }
        return _value(await self.send("Runtime.callFunctionOn", request))

    def expects(self, message: bytes) -> bool:
        """Return whether a message is an answer, or an event with a listener; most events have none."""
        event = EVENT.match(message)
        return event is None or event[1].decode() in self.listeners

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handle an answer or an event."""
        if "id" not in message:
            for listener in self.listeners.get(message["method"], ()):
                listener(message["params"])
            return
        method, future = self.pending.pop(message["id"], ("", None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(ProtocolError(f"{method}: {message['error'].get('message', '')}"))
        else:
            future.set_result(message["result"])

    def close(self, reason: str) -> None:
        """Fail all present and future commands."""
        self.closed = reason
        self.ended.set()
        self.connection.sessions.pop(self.id.encode(), None)
        for _, future in self.pending.values():
            if not future.done():
                _fail(future, reason)
        self.pending.clear()


def _value(answer: Mapping[str, Any]) -> Any:
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        raise ScriptError(str(details.get("exception", {}).get("description") or details.get("text", ""))[:1000])
    return answer["result"].get("value")


def _fail(future: asyncio.Future[dict[str, Any]], reason: str) -> None:
    future.set_exception(ProtocolError(reason))
    # Marks the error as retrieved: nobody awaits a command whose sender was cancelled.
    future.exception()


class Pipe(asyncio.Protocol):
    """Both ends of one side: messages, each followed by a zero byte, in either direction."""

    def __init__(self, ends: tuple[int, int], receive: Callable[[bytes], object], on_end: Callable[[], object]) -> None:
        """Take over the ends to read from and to write to.

        ``receive`` gets every message. ``on_end`` is called once the other side has closed an end, or sends or leaves
        too long a message.
        """
        self._files = os.fdopen(ends[0], "rb", 0), os.fdopen(ends[1], "wb", 0)
        self._receive, self._on_end = receive, on_end
        self._received = bytearray()
        self._reading: asyncio.ReadTransport | None = None
        self._writing: asyncio.WriteTransport | None = None
        for end in ends:
            with contextlib.suppress(OSError):
                fcntl.fcntl(end, F_SETPIPE_SZ, PIPE_BYTES)

    async def open(self) -> None:
        """Start to write and to read."""
        loop = asyncio.get_running_loop()
        self._writing, _ = await loop.connect_write_pipe(lambda: self, self._files[1])
        self._reading, _ = await loop.connect_read_pipe(lambda: self, self._files[0])

    def write(self, message: bytes) -> None:
        """Write now what the pipe accepts, and the rest later."""
        if self._writing is None or self._writing.is_closing():
            return
        self._writing.write(message + b"\0")
        if self._writing.get_write_buffer_size() > MAX_MESSAGE_BYTES:
            self._on_end()

    def data_received(self, data: bytes) -> None:
        """Handle the messages that are complete."""
        if len(self._received) > MAX_MESSAGE_BYTES:
            self._on_end()
        elif b"\0" not in data:
            self._received += data
        else:
            *messages, rest = (bytes(self._received) + data).split(b"\0")
            self._received[:] = rest
            for message in messages:
                self._receive(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Call ``on_end``: an end is closed."""
        self._on_end()

    def close(self) -> None:
        """Close both ends; what is unsent is lost. Not while ``open`` runs."""
        if self._reading is not None:
            self._reading.close()
        if self._writing is not None and not self._writing.is_closing():
            # asyncio closes it once the other side has closed its end; a second time is an error in its log.
            self._writing.abort()
        if self._reading is None:
            self._files[0].close()
        if self._writing is None:
            self._files[1].close()


class Connection:
    """Chromium's pipe: the driver's own sessions, and all other messages for Playwright."""

    def __init__(self, chromium: tuple[int, int], playwright: tuple[int, int], on_close: Callable[[], object]) -> None:
        """Take over the ends to read from and to write to, of Chromium and of Playwright; ``open`` starts to use them.

        All are closed at the end. ``on_close`` is called once, when either side has closed its end.
        """
        self.sessions: dict[bytes, Session] = {}
        self.on_close = on_close
        self.closed = False
        self._opening = False
        self._last_id = OWN_IDS
        self._chromium = Pipe(chromium, self._from_chromium, self.close)
        self._playwright = Pipe(playwright, self._from_playwright, self.close)
        self.root = Session(self, "")
        """Commands outside of sessions; their answers are found by their ids."""
        self.browser: Session | None = None
        """The driver's own session with the browser, once ``browser_session`` opened it."""
        self.without_requests: set[str] = set()
        """Ids of Playwright's sessions that requested the events of requests and do not get them yet."""

    async def open(self) -> None:
        """Start to pass messages on; Chromium sends none before it gets the first one."""
        self._opening = True
        try:
            await self._chromium.open()
            await self._playwright.open()
        finally:
            self._opening = False
            if self.closed:
                self._close_pipes()

    def next_id(self) -> int:
        """Return the id of a new command."""
        self._last_id += 1
        return self._last_id

    def write(self, message: bytes) -> None:
        """Send one message to Chromium."""
        self._chromium.write(message)

    def report_requests(self) -> None:
        """Let Playwright get the events of requests, by which it sees that a navigation fails."""
        while self.without_requests:
            message = {"id": self.next_id(), "method": "Network.enable", "params": {}}
            self.write(json.dumps({**message, "sessionId": self.without_requests.pop()}).encode())

    async def attach(self, target_id: str) -> Session:
        """Return a new session with a target. Raises ProtocolError."""
        browser = await self.browser_session()
        answer = await browser.send("Target.attachToTarget", {"targetId": target_id, "flatten": True})
        return Session(self, answer["sessionId"])

    async def browser_session(self) -> Session:
        """Return the driver's session with the browser. Raises ProtocolError."""
        if self.browser is None:
            # In this session Chromium announces the driver's other sessions; Playwright takes none but its own.
            answer = await self.root.send("Target.attachToBrowserTarget")
            self.browser = Session(self, answer["sessionId"])
            self.browser.on("Target.detachedFromTarget", self._on_detached)
        return self.browser

    def close(self) -> None:
        """Close both pipes and fail all commands; further calls do nothing."""
        if self.closed:
            return
        self.closed = True
        if not self._opening:
            self._close_pipes()
        for session in [*self.sessions.values()]:
            session.close(f"the browser {GONE}")
        self.on_close()

    def _close_pipes(self) -> None:
        self._chromium.close()
        self._playwright.close()

    def _on_detached(self, event: Mapping[str, Any]) -> None:
        session = self.sessions.get(event["sessionId"].encode())
        if session is not None:
            session.close(f"the page {GONE}")

    def _from_chromium(self, message: bytes) -> None:
        found = SESSION.search(message, max(0, len(message) - SESSION_CHARS))
        session = self.sessions.get(found[1]) if found else None
        answer = OWN_ANSWER.match(message) if session is None else None
        if session is not None:
            if session.expects(message):
                session.receive(json.loads(message))
        elif answer and int(answer[1]) >= OWN_IDS:
            # The answer of a session that has ended, or of ``report_requests``, has no receiver.
            if found is None:
                self.root.receive(json.loads(message))
        else:
            if detached := DETACHED.match(message):
                self.without_requests.discard(detached[1].decode())
            self._playwright.write(message)

    def _from_playwright(self, message: bytes) -> None:
        if REPORT_REQUESTS in message:
            command = json.loads(message)
            self.without_requests.add(command["sessionId"])
            answer = {"id": command["id"], "result": {}, "sessionId": command["sessionId"]}
            self._playwright.write(json.dumps(answer, separators=(",", ":")).encode())
        else:
            self._chromium.write(message)
