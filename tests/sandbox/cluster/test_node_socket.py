"""The node socket: errors of a worker when the command, the sandbox, the lease or the node actor ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from turnwise.sandbox import SandboxLost, SandboxSpec
from turnwise.sandbox.cluster.client import connect
from turnwise.sandbox.cluster.node import SandboxNode
from turnwise.sandbox.cluster.node_socket import SocketConnection
from turnwise.sandbox.cluster.settings import SandboxSettings
from turnwise.sandbox.errors import NodeLost
from turnwise.sandbox.pool.pool import Pool

SPEC = SandboxSpec(memory_mib=128, disk_mib=16, trusted=True)
EXEC = {"op": "exec", "timeout_s": 30, "max_output_bytes": 1000, "env": {}}


@asynccontextmanager
async def opened() -> AsyncIterator[SandboxNode]:
    node = SandboxNode("socket", SandboxSettings(backend="local", max_per_node=2, warm=0).model_dump())
    try:
        yield node
    finally:
        await node.close()


async def lease_from_run(node: SandboxNode) -> tuple[str, SocketConnection]:
    got = await node.lease(SPEC.model_dump(), 30, None, wait=True)
    assert got is not None
    lease, name, _, path = got
    connection = await connect(path, None, name, lease)
    assert isinstance(connection, SocketConnection)
    return lease, connection


async def until_released(node: SandboxNode, timeout_s: float) -> None:
    until = monotonic() + timeout_s
    while (await node.health())["leased"]:
        assert monotonic() < until, await node.health()
        await asyncio.sleep(0.02)


def test_requests_are_forwarded_and_closing_the_connection_ends_the_lease() -> None:
    async def main() -> None:
        async with opened() as node:
            _, connection = await lease_from_run(node)
            answer, data = await connection.call({**EXEC, "argv": ["cat"]}, b"one\n", timeout_s=10)
            assert (answer["exit_code"], data) == (0, b"one\n")
            connection.close()
            await until_released(node, 5)
            with pytest.raises(NodeLost):
                await connection.call({**EXEC, "argv": ["true"]}, timeout_s=10)

    asyncio.run(main())


def test_worker_that_disconnects_during_a_command_releases_at_once() -> None:
    async def main() -> None:
        async with opened() as node:
            lease, connection = await lease_from_run(node)
            running = asyncio.create_task(connection.call({**EXEC, "argv": ["sleep", "30"]}, timeout_s=35))
            taken: Any = node._leases[lease].connection
            while not taken._lock.locked():
                await asyncio.sleep(0.01)
            connection.close()
            await until_released(node, 5)
            with pytest.raises(NodeLost):
                await running

    asyncio.run(main())


def test_end_of_a_sandbox_and_end_of_a_lease_raise_different_errors() -> None:
    async def main() -> None:
        async with opened() as node:
            lease, connection = await lease_from_run(node)
            node._leases[lease].connection.close("broken on purpose")
            with pytest.raises(SandboxLost, match="broken on purpose"):
                await connection.call({**EXEC, "argv": ["true"]}, timeout_s=10)

            lease, connection = await lease_from_run(node)
            await node.release(lease)
            with pytest.raises(NodeLost, match="over"):
                await connection.call({**EXEC, "argv": ["true"]}, timeout_s=10)

    asyncio.run(main())


def test_silent_node_actor_raises_node_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.cluster.node_socket.NODE_GRACE_S", 0.5)

    async def main() -> None:
        async with opened() as node:
            _, connection = await lease_from_run(node)
            (sandbox,) = node._leases.values()

            async def hang(*_: object, **__: object) -> None:
                await asyncio.sleep(60)

            monkeypatch.setattr(sandbox.connection, "call", hang)
            with pytest.raises(NodeLost, match="no answer"):
                await connection.call({**EXEC, "argv": ["true"]}, timeout_s=0.5)

    asyncio.run(main())


def test_unused_lease_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.cluster.node.CLAIM_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with opened() as node:
            assert await node.lease(SPEC.model_dump(), 30, None, wait=True)
            await until_released(node, 5)
            _, connection = await lease_from_run(node)
            await asyncio.sleep(0.5)
            assert (await connection.call({**EXEC, "argv": ["true"]}, timeout_s=10))[0]["exit_code"] == 0
            connection.close()

    asyncio.run(main())


def test_ended_lease_gives_no_access_to_the_sandbox_of_the_next() -> None:
    async def main() -> None:
        async with opened() as node:
            lease, connection = await lease_from_run(node)
            name = node._leases[lease].id
            connection.close()
            await until_released(node, 5)
            assert isinstance(node._pool, Pool)
            again, other = await lease_from_run(node)
            assert node._leases[again].id == name
            await node.release(lease)
            with pytest.raises(NodeLost):
                await node.forward(lease, {"op": "ping"}, b"", 5)
            assert (await other.call({**EXEC, "argv": ["true"]}, timeout_s=10))[0]["exit_code"] == 0
            other.close()

    asyncio.run(main())
