"""``connect``: bytes arrive intact, slow streams delay no other, and no flood fills the memory of this process."""

import asyncio
import errno
import os

import pytest
from turnwise.sandbox.errors import SandboxLost, StreamError, StreamTimeout
from turnwise.sandbox.guest.frames import WINDOW_BYTES
from turnwise.sandbox.guest.streams import MAX_STREAMS
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.transport.guest_stream import GuestStream
from turnwise.tests.sandbox.streams.sandboxes import in_sandbox, read_all, start_echo


@pytest.mark.parametrize("address", [8000, "/workspace/echo"])
def test_bytes_return_intact_in_both_directions_at_once(address: int | str) -> None:
    data = os.urandom(3 << 20)

    async def work(sandbox: Sandbox) -> None:
        await start_echo(sandbox, address)
        stream = await sandbox.connect(address, timeout_s=5)

        async def send() -> None:
            await stream.send(data, timeout_s=20)
            await stream.end_input()

        sending = asyncio.create_task(send())
        assert await read_all(stream) == data
        await sending

    in_sandbox(work)


def test_refused_connection_leaves_the_sandbox_usable() -> None:
    async def work(sandbox: Sandbox) -> None:
        for address, reason in ((8000, "Connection refused"), ("/workspace/none", "No such file"), ("x" * 200, "")):
            with pytest.raises(StreamError, match=f"cannot connect to {address}.*{reason}"):
                await sandbox.connect(address, timeout_s=5)
        assert (await sandbox.exec(["true"], timeout_s=5)).exit_code == 0

    in_sandbox(work)


def test_flood_that_nobody_reads_is_bounded_and_delays_nothing() -> None:
    async def work(sandbox: Sandbox) -> None:
        await start_echo(sandbox, 8000)
        flood = await sandbox.open_process(["cat", "/dev/zero"], timeout_s=5)
        await asyncio.sleep(0.3)
        assert len(flood._inbox[0]) == WINDOW_BYTES
        other = await sandbox.connect(8000, timeout_s=5)
        await other.send(b"through", timeout_s=5)
        assert await other.receive(timeout_s=5) == b"through"
        assert (await sandbox.exec(["true"], timeout_s=5)).exit_code == 0
        assert len(flood._inbox[0]) == WINDOW_BYTES

    in_sandbox(work)


def test_a_program_that_does_not_read_blocks_its_own_stream_only() -> None:
    async def work(sandbox: Sandbox) -> None:
        await start_echo(sandbox, 8000)
        deaf = await sandbox.open_process(["sleep", "60"], timeout_s=5)
        with pytest.raises(StreamTimeout, match=r"did not read within 0\.3 s"):
            await deaf.send(bytes(1 << 20), timeout_s=0.3)
        other = await sandbox.connect(8000, timeout_s=5)
        await other.send(b"through", timeout_s=5)
        assert await other.receive(timeout_s=5) == b"through"

    in_sandbox(work)


def test_streams_move_during_a_command() -> None:
    async def work(sandbox: Sandbox) -> None:
        await start_echo(sandbox, 8000)
        stream = await sandbox.connect(8000, timeout_s=5)
        command = asyncio.create_task(sandbox.exec(["sleep", "60"], timeout_s=1.0))
        for _ in range(20):
            await stream.send(b"x" * 1000, timeout_s=5)
            assert await stream.receive(timeout_s=5)
        assert not command.done()
        assert (await command).timed_out

    in_sandbox(work)


def test_reset_ends_every_stream_and_its_server() -> None:
    async def work(sandbox: Sandbox) -> None:
        await start_echo(sandbox, 8000)
        stream = await sandbox.connect(8000, timeout_s=5)
        receiving = asyncio.create_task(stream.receive(timeout_s=10))
        await asyncio.sleep(0)
        await sandbox.reset(timeout_s=10)
        with pytest.raises(StreamError, match="the sandbox was reset"):
            await receiving
        with pytest.raises(StreamError, match="the sandbox was reset"):
            await stream.send(b"x", timeout_s=5)
        with pytest.raises(StreamError, match="refused"):
            await sandbox.connect(8000, timeout_s=5)

    in_sandbox(work)


def test_end_of_the_sandbox_ends_its_streams() -> None:
    async def work(sandbox: Sandbox) -> None:
        stream = await sandbox.open_process(["cat"], timeout_s=5)
        receiving = asyncio.create_task(stream.receive(timeout_s=10))
        await asyncio.sleep(0)
        await sandbox.close()
        with pytest.raises(SandboxLost):
            await receiving

    in_sandbox(work)


def test_the_number_of_streams_is_limited_and_closed_ones_make_room() -> None:
    async def work(sandbox: Sandbox) -> None:
        streams = [await sandbox.open_process(["cat"], timeout_s=5) for _ in range(MAX_STREAMS)]
        with pytest.raises(StreamError, match=f"{MAX_STREAMS} open streams"):
            await sandbox.open_process(["cat"], timeout_s=5)
        streams[0].close()
        with pytest.raises(StreamError, match="the stream was closed"):
            await streams[0].receive(timeout_s=5)
        await sandbox.open_process(["cat"], timeout_s=5)

    in_sandbox(work)


def test_a_guest_that_exceeds_its_window_is_refused() -> None:
    class Nowhere:
        name = "a sandbox"

        async def send(self, header: object, payload: bytes = b"") -> None:
            raise AssertionError

        def write(self, header: object, payload: bytes = b"") -> None:
            raise AssertionError

        def forget(self, number: int) -> None:
            raise AssertionError

    stream = GuestStream(Nowhere(), 1)
    stream.on_frame({"channel": 0}, bytes(WINDOW_BYTES))
    with pytest.raises(ValueError, match="exceeds its window"):
        stream.on_frame({"channel": 0}, b"x")


def test_an_address_that_cannot_exist_leaves_the_sandbox_usable() -> None:
    async def work(sandbox: Sandbox) -> None:
        for address in (65_536, -1, "\ud800", "x" * 200):
            with pytest.raises(StreamError, match="cannot connect to"):
                await sandbox.connect(address, timeout_s=5)
        assert (await sandbox.request("\ud800", b"", timeout_s=5)).exit_code == errno.EINVAL
        assert (await sandbox.exec(["true"], timeout_s=5)).exit_code == 0

    in_sandbox(work)
