"""One message to something in the box that listens on a unix socket, and its answer."""

from __future__ import annotations

import select
import socket
import time

PIECE = 1 << 16


def request(path: str, message: bytes, cap: int, host: int, until: float) -> tuple[bytes, str]:
    """Connect, send the message, half close, and take what comes until the other end closes.

    Gives the answer and why it is not whole: ``deadline``, ``flood`` (more than ``cap`` bytes), ``gone`` (the host's
    end, ``host``, is closed), or nothing.

    Raises:
        OSError: nothing listens there, or it hung up before it took the message.
    """
    left, kept = memoryview(message), bytearray()
    with socket.socket(socket.AF_UNIX) as end:
        end.setblocking(False)
        poll = select.poll()
        poll.register(host, select.POLLIN | select.POLLRDHUP)
        end.connect(path)
        poll.register(end, select.POLLIN | (select.POLLOUT if left else 0))
        if not left:
            end.shutdown(socket.SHUT_WR)
        while True:
            rest = until - time.monotonic()
            if rest <= 0:
                return bytes(kept), "deadline"
            for number, what in poll.poll(rest * 1000):
                if number == host:
                    return bytes(kept), "gone"
                if what & select.POLLOUT and left:
                    left = left[end.send(left[:PIECE]) :]
                    if not left:
                        end.shutdown(socket.SHUT_WR)
                        poll.modify(end, select.POLLIN)
                if what & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    piece = end.recv(PIECE)
                    if not piece:
                        return bytes(kept), ""
                    kept += piece[: cap - len(kept) + 1]
                    if len(kept) > cap:
                        return bytes(kept[:cap]), "flood"
