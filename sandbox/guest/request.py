"""Send one message to a process in the sandbox that listens on a unix socket, and collect its reply."""

from __future__ import annotations

import select
import socket
import time

from .streams import Hub

CHUNK_BYTES = 1 << 16


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
                    unsent = unsent[end.send(unsent[:CHUNK_BYTES]) :]
                    if not unsent:
                        end.shutdown(socket.SHUT_WR)
                        poll.modify(end, select.POLLIN)
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    chunk = end.recv(CHUNK_BYTES)
                    if not chunk:
                        return bytes(reply), ""
                    reply += chunk[: max_output_bytes - len(reply) + 1]
                    if len(reply) > max_output_bytes:
                        return bytes(reply[:max_output_bytes]), "output_limit"
