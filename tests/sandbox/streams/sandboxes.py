"""A sandbox of the local backend for one test of streams, and programs that run in it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.errors import StreamError
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.transport.guest_stream import GuestStream

SPEC = SandboxSpec(memory_mib=256, disk_mib=16, trusted=True)
ECHO = """
import socket, sys, threading
def serve(end):
    while data := end.recv(1 << 16):
        end.sendall(data)
    end.close()
end = socket.socket(socket.AF_UNIX if sys.argv[1].startswith("/") else socket.AF_INET)
end.bind(sys.argv[1] if sys.argv[1].startswith("/") else ("127.0.0.1", int(sys.argv[1])))
end.listen(64)
while True:
    threading.Thread(target=serve, args=(end.accept()[0],)).start()
"""


@asynccontextmanager
async def one_sandbox() -> AsyncIterator[Sandbox]:
    backend = BubblewrapBackend()
    sandbox = await backend.start(SPEC)
    try:
        yield sandbox
    finally:
        await sandbox.close()
        await backend.close()


def in_sandbox(work: Callable[[Sandbox], Awaitable[Any]]) -> None:
    """Run ``work`` in an event loop with its own sandbox."""

    async def main() -> None:
        async with one_sandbox() as sandbox, asyncio.timeout(60):
            await work(sandbox)

    asyncio.run(main())


async def start_echo(sandbox: Sandbox, address: int | str) -> None:
    """Start a server that returns its input, and wait until it listens."""
    await sandbox.open_process(["python3", "-c", ECHO, str(address)], timeout_s=10)
    for _ in range(500):
        try:
            (await sandbox.connect(address, timeout_s=5)).close()
            return
        except StreamError:
            await asyncio.sleep(0.02)
    raise AssertionError("the server does not listen")


async def read_all(stream: GuestStream, channel: int = 0) -> bytes:
    parts = []
    while part := await stream.receive(timeout_s=10, channel=channel):
        parts.append(part)
    return b"".join(parts)
