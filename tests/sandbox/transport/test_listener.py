"""A connection whose sandbox does not start is closed, and so is one without the token."""

import asyncio
from pathlib import Path

import pytest
from turnwise.sandbox.guest.frames import encode
from turnwise.sandbox.transport.listener import TcpListener, UnixListener


def test_a_guest_that_sends_nothing_is_disconnected(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        path = tmp_path / "s"
        listener = UnixListener("guest", path)
        await listener.__aenter__()
        reader, writer = await asyncio.open_unix_connection(path)
        with pytest.raises(TimeoutError):
            await listener.accept(0.05)
        await listener.__aexit__(TimeoutError)
        async with asyncio.timeout(5):
            left = await reader.read()
        writer.close()
        return left

    assert asyncio.run(scenario()) == b""


def test_tcp_admits_only_the_guest_with_the_token() -> None:
    async def scenario() -> None:
        async with TcpListener("guest") as listener:
            assert listener.host == "127.0.0.1"
            wrong = [encode({"token": "0" * 64}), encode({"python": "3"}), b"\xff" * 64, encode({}, bytes(64)), b""]
            for first in wrong:
                reader, writer = await asyncio.open_connection(listener.host, listener.port)
                writer.write(first)
                writer.write_eof()
                async with asyncio.timeout(5):
                    assert await reader.read() == b""
                writer.close()
            silent = [await asyncio.open_connection(listener.host, listener.port) for _ in range(3)]
            reader, writer = await asyncio.open_connection(listener.host, listener.port)
            writer.write(encode({"token": listener.token}))
            connection = await listener.accept(5)
            calling = asyncio.create_task(connection.call({"op": "ping"}, timeout_s=5))
            assert b"ping" in await reader.read(100)
            writer.write(encode({}))
            assert await calling == ({}, b"")
        for other, end in silent:
            async with asyncio.timeout(5):
                assert await other.read() == b""
            end.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(listener.host, listener.port)
        connection.close()
        writer.close()

    asyncio.run(scenario())


def test_the_accepted_guest_is_not_pending_once_accept_may_return(tmp_path: Path) -> None:
    """A caller that comes when the guest is connected leaves the listener at once, before the greeting's task ends."""

    async def scenario() -> list[int]:
        path, pending = tmp_path / "s", list[int]()
        async with UnixListener("guest", path) as listener:
            listener._connected.add_done_callback(lambda _: pending.append(len(listener._pending)))
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(encode({}))
            connection = await listener.accept(5)
        assert connection.closed_reason == ""
        connection.close()
        writer.close()
        return pending

    assert asyncio.run(scenario()) == [0]
