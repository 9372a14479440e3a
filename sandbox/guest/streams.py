"""Byte streams between the host and programs in the sandbox, several of them over the one connection.

A stream has one input and one output (a socket) or two (stdout and stderr of a process). The header of a request has
the key ``op``, that of a frame of a stream the key ``stream``; every other frame is an answer. Each input and each
output has a window: a sender stops once ``WINDOW_BYTES`` have not been consumed by the receiver, which grants new
``credit`` as it consumes. Neither side therefore ever holds more than the windows, and a slow stream delays no other.

From the host: data (a payload), ``eof``, ``credit`` for a ``channel``, ``signal`` and ``close``. From the guest: data
of a ``channel``, ``end`` of a channel, ``credit``, ``input_closed`` and ``exit_code``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque
from typing import Any

from .frames import WINDOW_BYTES, encode, encode_start, take_frames
from .processes import WATCHED

MAX_STREAMS = 32
CHUNK_BYTES = 32 << 10
RECEIVE_BYTES = 64 << 10


class Stream:
    """Ends of one stream inside the sandbox; all descriptors are non-blocking."""

    def __init__(self, number: int, writer: int, readers: list[int], pid: int = 0) -> None:
        """``readers`` are the descriptors of channel 0, 1 …; ``pid`` is 0 for a socket."""
        self.number = number
        self.writer = writer
        self.channels = {end: channel for channel, end in enumerate(readers)}
        """Channels whose end has not been reached, by descriptor."""
        self.credit = [WINDOW_BYTES] * len(readers)
        self.unwritten = bytearray()
        self.eof = False
        """The host sends no more data."""
        self.pid = pid
        """Process of the stream that is still running; 0 without one."""
        self.exited = False


class Hub:
    """The connection to the host and every stream, in one set of descriptors: readable when ``pump`` can do work."""

    def __init__(self, connection: socket.socket, exits: int) -> None:
        """``exits`` becomes readable when a child exits."""
        self.connection = connection
        self.requests: deque[tuple[dict[str, Any], bytes]] = deque()
        """Frames from the host that belong to no stream."""
        self.streams: dict[int, Stream] = {}
        self._exits = exits
        self._ends: dict[int, Stream] = {}
        self._received, self._unsent = bytearray(), bytearray()
        self._epoll = select.epoll()
        connection.setblocking(False)
        self._interest = select.EPOLLIN | select.EPOLLRDHUP
        self._epoll.register(connection, self._interest)
        self._epoll.register(exits, select.EPOLLIN)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._epoll.fileno()

    def pump(self, timeout_s: float = 0.0) -> bool:
        """Move bytes for as long as no end makes it wait; return False once the host has disconnected.

        Without anything to move, wait for at most ``timeout_s``.
        """
        for end, events in self._epoll.poll(timeout_s):
            if end == self.connection.fileno():
                if events & select.EPOLLOUT and not self.flush():
                    return False
                if events & ~select.EPOLLOUT and not self._receive():
                    return False
            elif end == self._exits:
                with contextlib.suppress(BlockingIOError):
                    os.read(end, CHUNK_BYTES)
            elif end in self._ends:
                stream = self._ends[end]
                if end == stream.writer:
                    self._write(stream)
                else:
                    self._read(stream, end)
        for stream in self.streams.values():
            if stream.pid:
                self._check_exit(stream)
        return self.flush()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame for the host."""
        self._unsent += encode(header, payload)

    def send_now(self, header: dict[str, Any], payload: bytes) -> bool:
        """Send one frame after the queued ones, and wait for its end; return False once the host has disconnected."""
        self.connection.setblocking(True)
        try:
            # Not concatenated, because an answer may take a large part of the guest agent's memory.
            self._unsent += encode_start(header, len(payload))
            if len(payload) <= CHUNK_BYTES:
                self._unsent += payload
            self.connection.sendall(self._unsent)
            self._unsent.clear()
            if len(payload) > CHUNK_BYTES:
                self.connection.sendall(payload)
        except OSError:
            return False
        finally:
            self.connection.setblocking(False)
        return self.flush()

    def flush(self) -> bool:
        """Send queued frames for as long as the host keeps up; return False once it has disconnected."""
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = self.connection.send(view)
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            return False
        interest = select.EPOLLIN | select.EPOLLRDHUP | (select.EPOLLOUT if self._unsent else 0)
        if interest != self._interest:
            self._interest = interest
            self._epoll.modify(self.connection, interest)
        return True

    def add(self, stream: Stream) -> None:
        """Start to move the bytes of a stream."""
        self.streams[stream.number] = stream
        if stream.pid:
            WATCHED[stream.pid] = None
        for end in (stream.writer, *stream.channels):
            self._ends[end] = stream
        for end in stream.channels:
            self._epoll.register(end, select.EPOLLIN)

    def close_streams(self) -> None:
        """Close every stream and kill its process."""
        for number in list(self.streams):
            self._close(number)

    def _receive(self) -> bool:
        try:
            data = self.connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._received += data
        for header, payload in take_frames(self._received):
            if "op" in header:
                self.requests.append((header, payload))
            else:
                self._on_frame(header, payload)
        return bool(data)

    def _on_frame(self, header: dict[str, Any], payload: bytes) -> None:
        stream = self.streams.get(header["stream"])
        if stream is None:
            return
        if "close" in header:
            self._close(stream.number)
        elif "credit" in header:
            self._grant(stream, header["channel"], header["credit"])
        elif "signal" in header:
            if stream.pid and WATCHED[stream.pid] is None:
                with contextlib.suppress(OSError):
                    os.kill(stream.pid, header["signal"])
        elif stream.writer >= 0:
            stream.unwritten += payload
            stream.eof = stream.eof or "eof" in header
            self._write(stream)

    def _grant(self, stream: Stream, channel: int, credit: int) -> None:
        stream.credit[channel] += credit
        for end, number in list(stream.channels.items()):
            if number == channel:
                self._register(end, select.EPOLLIN)
                if stream.exited:
                    self._drain(stream, end)

    def _write(self, stream: Stream) -> None:
        written = 0
        try:
            while stream.unwritten:
                with memoryview(stream.unwritten) as view:
                    count = os.write(stream.writer, view[:CHUNK_BYTES])
                del stream.unwritten[:count]
                written += count
        except BlockingIOError:
            self._register(stream.writer, select.EPOLLOUT)
        except OSError:
            self._end_input(stream)
            self.send({"stream": stream.number, "input_closed": True})
            return
        if written:
            self.send({"stream": stream.number, "credit": written})
        if not stream.unwritten:
            self._unregister(stream.writer)
            if stream.eof:
                self._end_input(stream)

    def _end_input(self, stream: Stream) -> None:
        """Close the input of a program, which sees the end of its data."""
        stream.unwritten.clear()
        self._forget(stream.writer)
        if not stream.pid and not stream.exited:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(stream.writer)) as end:
                end.shutdown(socket.SHUT_WR)
        os.close(stream.writer)
        stream.writer = -1

    def _read(self, stream: Stream, end: int) -> bool:
        """Move one chunk from a program to the host; return whether more can follow at once."""
        channel = stream.channels[end]
        if not stream.credit[channel]:
            self._unregister(end)
            return False
        try:
            chunk = os.read(end, min(CHUNK_BYTES, stream.credit[channel]))
        except BlockingIOError:
            # After the exit of the process, only its background processes can hold the pipe open.
            if not stream.exited:
                return False
            chunk = b""
        except OSError:
            chunk = b""
        if not chunk:
            del stream.channels[end]
            self._forget(end)
            os.close(end)
            self.send({"stream": stream.number, "channel": channel, "end": True})
            return False
        stream.credit[channel] -= len(chunk)
        self.send({"stream": stream.number, "channel": channel}, chunk)
        return True

    def _drain(self, stream: Stream, end: int) -> None:
        while self._read(stream, end):
            pass

    def _check_exit(self, stream: Stream) -> None:
        status = WATCHED.get(stream.pid)
        if status is None:
            try:
                pid, status = os.waitpid(stream.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = stream.pid, int(signal.SIGKILL)
            if not pid:
                return
        WATCHED.pop(stream.pid, None)
        stream.pid, stream.exited = 0, True
        for end in list(stream.channels):
            self._drain(stream, end)
        self.send({"stream": stream.number, "exit_code": os.waitstatus_to_exitcode(status)})

    def _close(self, number: int) -> None:
        stream = self.streams.pop(number)
        if stream.pid:
            WATCHED.pop(stream.pid, None)
            # The process leads its own session: this includes its children, except those in further sessions.
            with contextlib.suppress(OSError):
                os.killpg(stream.pid, signal.SIGKILL)
        for end in (stream.writer, *stream.channels):
            if end >= 0:
                self._forget(end)
                os.close(end)

    def _register(self, end: int, events: int) -> None:
        try:
            self._epoll.register(end, events)
        except FileExistsError:
            self._epoll.modify(end, events)

    def _unregister(self, end: int) -> None:
        with contextlib.suppress(OSError):
            self._epoll.unregister(end)

    def _forget(self, end: int) -> None:
        self._unregister(end)
        self._ends.pop(end, None)


REQUEST_CHUNK_BYTES = 1 << 16


def request(path: str, message: bytes, max_output_bytes: int, hub: Hub, until: float) -> tuple[bytes, str]:
    """Connect, send the message, close the sending side and read until the listener closes; return the reply.

    The second value is the reason for an incomplete reply: ``timeout``, ``output_limit``, ``disconnected`` (the host
    closed the connection) or empty. ``until`` is a value of ``time.monotonic()``.

    Raises:
        OSError: no process listens on the socket, or the listener closed before it read the message.
    """
    unsent, reply = memoryview(message), bytearray()
    with socket.socket(socket.AF_UNIX) as end:
        end.setblocking(False)
        poll = select.poll()
        poll.register(hub, select.POLLIN)
        end.connect(path)
        poll.register(end, select.POLLIN | (select.POLLOUT if unsent else 0))
        if not unsent:
            end.shutdown(socket.SHUT_WR)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return bytes(reply), "timeout"
            for number, events in poll.poll(left * 1000):
                if number == hub.fileno():
                    if not hub.pump():
                        return bytes(reply), "disconnected"
                    continue
                if events & select.POLLOUT and unsent:
                    unsent = unsent[end.send(unsent[:REQUEST_CHUNK_BYTES]) :]
                    if not unsent:
                        end.shutdown(socket.SHUT_WR)
                        poll.modify(end, select.POLLIN)
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    chunk = end.recv(REQUEST_CHUNK_BYTES)
                    if not chunk:
                        return bytes(reply), ""
                    reply += chunk[: max_output_bytes - len(reply) + 1]
                    if len(reply) > max_output_bytes:
                        return bytes(reply[:max_output_bytes]), "output_limit"
