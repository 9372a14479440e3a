"""The event loop of sandboxes."""

import asyncio
import socket
import threading

import pytest
from turnwise.sandbox.errors import NodeLost
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


def test_a_call_during_the_stop_is_lost_with_its_loop() -> None:
    thread = LoopThread()
    timer = threading.Timer(0.1, thread.stop, [5])
    timer.start()
    with pytest.raises(NodeLost, match="has ended: its provider was closed"):
        thread.wait(asyncio.sleep(60), 60)
    timer.join()
    with pytest.raises(NodeLost, match="has ended"):
        thread.wait(asyncio.sleep(0), 1)


def test_a_second_stop_waits_for_the_first() -> None:
    thread = LoopThread()

    async def end_slowly() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.3)

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(end_slowly())
        await asyncio.sleep(0)
        return task

    task = thread.wait(start(), 5)
    thread.stop(0.01)
    thread.stop(5)
    assert task.cancelled()
    assert thread.loop.is_closed()
