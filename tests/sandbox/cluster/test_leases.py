"""A lease is a connection: errors of a worker when the command, the sandbox, the lease or the node actor ends."""

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import cast

import pytest
from turnwise.sandbox import SandboxError, SandboxLost, SandboxSpec
from turnwise.sandbox.cluster.lease_server import NodeEndpoint
from turnwise.sandbox.cluster.leased_connection import LeasedConnection, request_lease
from turnwise.sandbox.cluster.node import SandboxNode, SandboxSettings
from turnwise.sandbox.errors import LeaseTimeout, NodeLost, NotTrusted
from turnwise.sandbox.pool import Pool
from turnwise.sandbox.sandbox import Sandbox
from turnwise.sandbox.transport.guest_stream import GuestStream

SPEC = SandboxSpec(memory_mib=128, disk_mib=16, trusted=True)
ROUTES = pytest.mark.parametrize("near", [True, False], ids=["unix", "tcp"])
WORKER = """
import asyncio, sys
from turnwise.sandbox.cluster.lease_server import NodeEndpoint
from turnwise.sandbox.cluster.leased_connection import request_lease
from turnwise.sandbox.spec import SandboxSpec

async def main(near, *endpoint):
    spec = SandboxSpec(memory_mib=128, disk_mib=16, trusted=True)
    endpoint = NodeEndpoint(endpoint[0], endpoint[1], int(endpoint[2]), sys.stdin.readline().strip())
    sandbox = await request_lease(endpoint, spec, timeout_s=30, max_duration_s=60, wait=True, near=near == "True")
    print(sandbox.id, flush=True)
    await sandbox.exec(["sleep", "60"], timeout_s=60)

asyncio.run(main(*sys.argv[1:]))
"""


@asynccontextmanager
async def opened(per_node: int = 2) -> AsyncIterator[SandboxNode]:
    node = SandboxNode("leases", SandboxSettings(backend="local", max_per_node=per_node, warm=0).model_dump())
    try:
        yield node
    finally:
        await node.close()


async def lease(node: SandboxNode, near: bool, spec: SandboxSpec = SPEC, *, timeout_s: float = 30) -> Sandbox:
    endpoint = await node.endpoint(tcp=not near)
    found = await request_lease(endpoint, spec, timeout_s=timeout_s, max_duration_s=60, wait=True, near=near)
    assert found is not None
    return found


async def drain(stream: GuestStream) -> None:
    while await stream.receive(timeout_s=10):
        pass


def held(sandbox: Sandbox) -> LeasedConnection:
    return cast(LeasedConnection, sandbox.connection)


async def pool_of(node: SandboxNode) -> Pool:
    return (await node._open())[0]


async def until_released(node: SandboxNode, timeout_s: float = 5) -> None:
    until = monotonic() + timeout_s
    while (await node.health())["leased"]:
        assert monotonic() < until, await node.health()
        await asyncio.sleep(0.02)


async def until_idle(node: SandboxNode, timeout_s: float = 10) -> None:
    until = monotonic() + timeout_s
    while not (health := await node.health())["idle"] or health["leased"]:
        assert monotonic() < until, health
        await asyncio.sleep(0.02)


@ROUTES
def test_released_sandbox_is_reset_and_leased_again(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            first = await lease(node, near)
            await first.write({"left": b"x"}, timeout_s=10)
            assert (await first.exec(["cat", "left"], timeout_s=10)).stdout == b"x"
            held(first).release()
            await until_idle(node)
            with pytest.raises(SandboxError, match="released"):
                await first.exec(["true"], timeout_s=10)
            second = await lease(node, near)
            assert second.id == first.id
            assert await second.read(".", timeout_s=10) == {}
            assert (await node.health())["started"] == 1

    asyncio.run(main())


@ROUTES
def test_streams_of_a_released_lease_end_and_its_sandbox_is_clean(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            first = await lease(node, near)
            flood = await first.open_process(["yes"], timeout_s=10)
            assert len(await flood.receive(timeout_s=10)) > 0
            held(first).release()
            await until_idle(node)
            with pytest.raises(SandboxError, match="released"):
                await drain(flood)
            second = await lease(node, near)
            assert (second.id, (await node.health())["started"]) == (first.id, 1)
            assert (await second.exec(["pgrep", "-x", "yes"], timeout_s=10)).stdout == b""

    asyncio.run(main())


@ROUTES
def test_worker_that_disconnects_during_a_command_releases_at_once(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            sandbox = await lease(node, near)
            running = asyncio.create_task(sandbox.exec(["sleep", "30"], timeout_s=35))
            while not held(sandbox)._lock.locked():
                await asyncio.sleep(0.01)
            held(sandbox).release()
            await until_released(node)
            with pytest.raises(SandboxError):
                await running

    asyncio.run(main())


@ROUTES
def test_killed_worker_releases_its_lease_at_once(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            endpoint = await node.endpoint(tcp=not near)
            address = [str(near), endpoint.path, endpoint.host, str(endpoint.port)]
            worker = await asyncio.create_subprocess_exec(
                sys.executable, "-c", WORKER, *address, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(endpoint.token.encode() + b"\n")
            await worker.stdin.drain()
            name = (await worker.stdout.readline()).decode().strip()
            assert (await node.health())["leased"] == 1
            worker.kill()
            await worker.wait()
            await until_released(node)
            assert (await lease(node, near)).id != name

    asyncio.run(main())


@ROUTES
def test_end_of_a_sandbox_and_end_of_a_lease_raise_different_errors(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            pool = await pool_of(node)
            sandbox = await lease(node, near)
            pool._leased[sandbox.id][0].connection.close("broken on purpose")
            with pytest.raises(SandboxLost):
                await sandbox.exec(["true"], timeout_s=10)
            await until_released(node)

            sandbox = await lease(node, near)
            for worker in list((await node._open())[1].workers):
                worker.end("the lease is over")
            with pytest.raises(NodeLost, match="the lease is over"):
                await sandbox.exec(["true"], timeout_s=10)

    asyncio.run(main())


@pytest.mark.parametrize("node_ends", [True, False])
def test_end_of_a_node_explains_the_end_of_its_guest_agents(node_ends: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            sandbox = await lease(node, near=True)
            connection = held(sandbox)
            assert connection.lease is not None
            if node_ends:
                # The kernel closes the sockets of an ended process in any order, so stop reading one of them.
                cast(asyncio.Transport, connection.lease.transport).pause_reading()
                for worker in list((await node._open())[1].workers):
                    cast(asyncio.Transport, worker.transport).abort()
            guest = connection.duplicate_socket()
            guest.shutdown(socket.SHUT_RDWR)
            guest.close()
            while not connection.closed_reason:
                await asyncio.sleep(0.01)
            cast(asyncio.Transport, connection.lease.transport).resume_reading()
            with pytest.raises(NodeLost if node_ends else SandboxLost, match="ended"):
                await sandbox.exec(["true"], timeout_s=10)
            await until_released(node)

    asyncio.run(main())


@ROUTES
def test_closed_node_ends_its_leases(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            sandbox = await lease(node, near)
            await node.close()
            with pytest.raises((NodeLost, SandboxLost)):
                await sandbox.exec(["true"], timeout_s=10)

    asyncio.run(main())


@ROUTES
def test_refusals_keep_their_class(near: bool) -> None:
    async def main() -> None:
        async with opened(1) as node:
            with pytest.raises(NotTrusted, match="not declared trusted"):
                await lease(node, near, SPEC.model_copy(update={"trusted": False}))
            await lease(node, near)
            with pytest.raises(LeaseTimeout, match="1 leased"):
                await lease(node, near, timeout_s=0.1)
            endpoint = await node.endpoint(tcp=True)
            full = await request_lease(endpoint, SPEC, timeout_s=9, max_duration_s=60, wait=False, near=near)
            assert full is None

    asyncio.run(main())


@ROUTES
def test_a_wrong_token_gets_no_lease(near: bool) -> None:
    async def main() -> None:
        async with opened() as node:
            endpoint = await node.endpoint(tcp=True)
            wrong = dataclasses.replace(endpoint, token="0" * 64)
            with pytest.raises(NodeLost):
                await request_lease(wrong, SPEC, timeout_s=5, max_duration_s=60, wait=True, near=near)
            assert (await node.health())["leases"] == 0

    asyncio.run(main())


def test_the_node_listens_on_tcp_only_when_another_node_leases() -> None:
    async def main() -> None:
        async with opened() as node:
            near = await node.endpoint(tcp=False)
            assert near.port == 0
            assert os.stat(os.path.dirname(near.path)).st_mode & 0o777 == 0o700  # noqa: PTH116, PTH120
            far = await node.endpoint(tcp=True)
            assert far.host == "127.0.0.1"
            reader, writer = await asyncio.open_connection(far.host, far.port)
            writer.write(b"\xff" * 64)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(main())


def test_a_connection_that_requests_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.cluster.lease_server.REQUEST_TIMEOUT_S", 0.1)

    async def main() -> None:
        async with opened() as node:
            near = await node.endpoint(tcp=False)
            sandbox = await lease(node, True)
            reader, writer = await asyncio.open_unix_connection(near.path)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
            writer.close()
            assert (await sandbox.exec(["true"], timeout_s=10)).exit_code == 0

    asyncio.run(main())


def test_worker_that_leaves_while_it_waits_takes_no_sandbox() -> None:
    async def main() -> None:
        async with opened(1) as node:
            first = await lease(node, True)
            waiting = asyncio.create_task(lease(node, True))
            while not (await node.health())["waiting"]:
                await asyncio.sleep(0.01)
            waiting.cancel()
            while (await node.health())["waiting"]:
                await asyncio.sleep(0.01)
            held(first).release()
            await until_idle(node)

    asyncio.run(main())


def test_no_text_of_an_address_has_its_token() -> None:
    assert "secret" not in repr(NodeEndpoint("/path", "host", 1, "secret"))
