"""The gate of a host: what a worker sees when the command, the box, the lease or the host ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic

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
async def host() -> AsyncIterator[SandboxNode]:
    made = SandboxNode("gate", SandboxSettings(backend="local", per_node=2, warm=0).model_dump())
    try:
        yield made
    finally:
        await made.close()


async def leased(made: SandboxNode) -> tuple[str, SocketConnection]:
    got = await made.lease(SPEC.model_dump(), 30, None, wait=True)
    assert got is not None
    lease, name, _, gate = got
    near = await connect(gate, None, name, lease)
    assert isinstance(near, SocketConnection)
    return lease, near


async def until_free(made: SandboxNode, seconds: float) -> None:
    until = monotonic() + seconds
    while (await made.health())["leased"]:
        assert monotonic() < until, await made.health()
        await asyncio.sleep(0.02)


def test_frames_pass_and_the_end_of_the_connection_is_the_end_of_the_lease() -> None:
    async def main() -> None:
        async with host() as made:
            _, near = await leased(made)
            answer, data = await near.call({**EXEC, "argv": ["cat"]}, b"one\n", timeout_s=10)
            assert (answer["exit_code"], data) == (0, b"one\n")
            near.close()
            await until_free(made, 5)
            with pytest.raises(NodeLost):
                await near.call({**EXEC, "argv": ["true"]}, timeout_s=10)

    asyncio.run(main())


def test_a_worker_that_goes_in_the_middle_of_a_command_gives_back_at_once() -> None:
    async def main() -> None:
        async with host() as made:
            _, near = await leased(made)
            running = asyncio.create_task(near.call({**EXEC, "argv": ["sleep", "30"]}, timeout_s=35))
            await asyncio.sleep(0.3)
            near.close()
            await until_free(made, 5)
            with pytest.raises(NodeLost):
                await running

    asyncio.run(main())


def test_a_box_that_ends_is_told_apart_from_a_lease_and_a_host_that_end() -> None:
    async def main() -> None:
        async with host() as made:
            lease, near = await leased(made)
            made._leases[lease].connection.close("broken on purpose")
            with pytest.raises(SandboxLost, match="broken on purpose"):
                await near.call({**EXEC, "argv": ["true"]}, timeout_s=10)

            lease, near = await leased(made)
            await made.release(lease)
            with pytest.raises(NodeLost, match="over"):
                await near.call({**EXEC, "argv": ["true"]}, timeout_s=10)

    asyncio.run(main())


def test_a_host_that_does_not_answer_is_no_doing_of_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.cluster.node_socket.NODE_GRACE_S", 0.5)

    async def main() -> None:
        async with host() as made:
            _, near = await leased(made)
            (box,) = made._leases.values()

            async def hang(*_: object, **__: object) -> None:
                await asyncio.sleep(60)

            monkeypatch.setattr(box.connection, "call", hang)
            with pytest.raises(NodeLost, match="no answer"):
                await near.call({**EXEC, "argv": ["true"]}, timeout_s=0.5)

    asyncio.run(main())


def test_a_lease_that_nobody_uses_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.cluster.node.CLAIM_TIMEOUT_S", 0.2)

    async def main() -> None:
        async with host() as made:
            assert await made.lease(SPEC.model_dump(), 30, None, wait=True)
            await until_free(made, 5)
            _, near = await leased(made)
            await asyncio.sleep(0.5)
            assert (await near.call({**EXEC, "argv": ["true"]}, timeout_s=10))[0]["exit_code"] == 0
            near.close()

    asyncio.run(main())


def test_a_sandbox_of_one_lease_is_out_of_reach_of_the_next() -> None:
    async def main() -> None:
        async with host() as made:
            lease, near = await leased(made)
            name = made._leases[lease].id
            near.close()
            await until_free(made, 5)
            assert isinstance(made._pool, Pool)
            again, other = await leased(made)
            assert made._leases[again].id == name
            await made.release(lease)
            with pytest.raises(NodeLost):
                await made.forward(lease, {"op": "ping"}, b"", 5)
            assert (await other.call({**EXEC, "argv": ["true"]}, timeout_s=10))[0]["exit_code"] == 0
            other.close()

    asyncio.run(main())
