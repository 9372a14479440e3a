"""The event loop of sandboxes."""

import asyncio
import socket

from turnwise.sandbox.loop_thread import LoopThread


def test_stop_ends_the_tasks_left_and_closes_their_sockets() -> None:
    thread = LoopThread()
    ours, theirs = socket.socketpair()

    async def hold() -> None:
        transport, _ = await thread.loop.create_connection(asyncio.Protocol, sock=ours)
        try:
            await asyncio.Event().wait()
        finally:
            transport.close()

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        await asyncio.sleep(0.01)
        return task

    task = thread.wait(start(), 5)
    thread.stop(5)
    assert not thread.alive
    assert task.cancelled()
    with theirs:
        theirs.settimeout(5)
        assert theirs.recv(1) == b""
