"""Leases across several Ray nodes on one machine, while a node joins and another is lost.

`make soak` adds a killed node actor, which CI kills in a whole run, and a killed worker with the backend `local`.
"""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.sandbox import ExecResult, SandboxLease, SandboxSpec
from turnwise.sandbox.cluster import client
from turnwise.sandbox.cluster import node as supervising
from turnwise.sandbox.cluster.client import ClusterProvider
from turnwise.sandbox.cluster.node import NodeSupervisor, SandboxSettings
from turnwise.sandbox.errors import LeaseTimeout, NodeLost
from turnwise.trainer.cluster.ray_patches import shut_ray_down, start_fewer_processes

SPEC = SandboxSpec(memory_mib=128, disk_mib=16)
TRUSTED = SPEC.model_copy(update={"trusted": True})
PER_NODE = 2
NODES = 2
TIMEOUT_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    for name, value in (("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        os.environ.setdefault(name, value)
    import ray
    from ray.cluster_utils import Cluster

    # Tests of this process that need another Ray instance start it again.
    shut_ray_down()
    start_fewer_processes()
    # A node that refuses the connection is dead after five checks; one that is only slow has 10 s for each.
    checks = {"health_check_period_ms": 500}
    size = {"num_cpus": 1, "object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args={**size, "_system_config": checks})
    for _ in range(NODES - 1):
        made.add_node(**size)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    yield made
    shut_ray_down()
    made.shutdown()


@pytest.fixture(autouse=True)
def _frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "NODE_POLL_INTERVAL_S", 0.2)


def lease_all(provider: ClusterProvider, count: int) -> list[SandboxLease]:
    """Return ``count`` leases, requested concurrently by one thread each."""
    got: list[SandboxLease] = []
    threads = [
        threading.Thread(target=lambda: got.append(provider.lease(SPEC, timeout_s=TIMEOUT_S, max_duration_s=300)))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S + 20)
    return got


def echo(sandbox: SandboxLease) -> ExecResult:
    return sandbox.exec(["echo", "hello"], timeout_s=10)


async def until_waiting(supervisor: NodeSupervisor) -> None:
    """Wait until a request waits for a sandbox at a node."""
    until = time.monotonic() + TIMEOUT_S
    while not any(one["waiting"] for one in await supervisor.health()):
        assert time.monotonic() < until
        await asyncio.sleep(0.05)


def until_lost(sandbox: SandboxLease) -> None:
    """Wait until Ray has noticed the death of the node actor and commands raise NodeLost."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        try:
            echo(sandbox)
        except NodeLost:
            return
        time.sleep(0.1)
    raise AssertionError(f"{sandbox.id} still answers")


def test_leases_span_nodes_wait_in_order_and_survive_a_lost_node(cluster: Any) -> None:
    async def main() -> None:
        supervisor = NodeSupervisor("across", SandboxSettings(backend="docker", max_per_node=PER_NODE, warm=0))
        supervisor.open()
        try:
            provider = ClusterProvider("across")
            sandboxes = await asyncio.to_thread(lease_all, provider, PER_NODE * NODES)
            assert len({sandbox.id for sandbox in sandboxes}) == PER_NODE * NODES
            assert all([(await asyncio.to_thread(echo, sandbox)).stdout == b"hello\n" for sandbox in sandboxes])
            with pytest.raises(LeaseTimeout, match="on any node"):
                await asyncio.to_thread(provider.lease, SPEC, timeout_s=1.0)

            # A node that joins serves requests that already wait.
            joining = asyncio.create_task(asyncio.to_thread(lease_all, provider, PER_NODE))
            await until_waiting(supervisor)
            assert not joining.done()
            node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
            there = await joining
            assert len(there) == PER_NODE

            # The leases of a lost node raise NodeLost; another node serves the next request.
            cluster.remove_node(node, allow_graceful=False)
            for sandbox in there:
                await asyncio.to_thread(until_lost, sandbox)
            waiting = asyncio.create_task(asyncio.to_thread(provider.lease, SPEC, timeout_s=TIMEOUT_S))
            await until_waiting(supervisor)
            assert not waiting.done()
            sandboxes[0].release()
            assert (await asyncio.to_thread(echo, await waiting)).stdout == b"hello\n"
        finally:
            await supervisor.close()

    asyncio.run(main())


@pytest.mark.soak
def test_killed_node_actor_restarts_without_its_old_sandboxes(cluster: Any) -> None:
    import ray

    async def main() -> None:
        supervisor = NodeSupervisor("killed", SandboxSettings(backend="docker", max_per_node=PER_NODE, warm=0))
        supervisor.open()
        try:
            provider = ClusterProvider("killed")
            sandbox = await asyncio.to_thread(provider.lease, SPEC, timeout_s=TIMEOUT_S)
            for actor in supervisor.actors.values():
                ray.kill(actor, no_restart=False)
            await asyncio.to_thread(until_lost, sandbox)
            again = await asyncio.to_thread(provider.lease, SPEC, timeout_s=TIMEOUT_S)
            assert (await asyncio.to_thread(echo, again)).stdout == b"hello\n"
            until = time.monotonic() + TIMEOUT_S
            while running(sandbox.id):
                assert time.monotonic() < until
                await asyncio.sleep(0.5)
        finally:
            await supervisor.close()

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["docker", pytest.param("local", marks=pytest.mark.soak)])
def test_killed_worker_releases_its_leases_on_its_own_node(cluster: Any, backend: str) -> None:
    """A request goes to the worker's own node first, and to another only if that one is full, fails, or is late."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Borrower:
        def borrow(self) -> bytes:
            client.NODE_WAIT_MAX_S = TIMEOUT_S  # so that on a busy machine the own node is not late
            self.sandbox = ClusterProvider(f"near-{backend}").lease(TRUSTED, timeout_s=TIMEOUT_S)
            return self.sandbox.exec(["cat"], timeout_s=10, stdin=b"a frame\n").stdout

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(supervising.alive_nodes()) > NODES:  # until Ray notices the node that an earlier test removed
                await asyncio.sleep(0.1)
        supervisor = NodeSupervisor(f"near-{backend}", SandboxSettings(backend=backend, max_per_node=PER_NODE, warm=0))
        supervisor.open()
        try:
            for node in supervisor.actors:
                here = NodeAffinitySchedulingStrategy(node, soft=False)
                borrower = ray.remote(Borrower).options(num_cpus=0, scheduling_strategy=here).remote()
                assert await borrower.borrow.remote() == b"a frame\n"
                assert [one["leased"] for one in await supervisor.health() if one["node"] == node] == [1]
                ray.kill(borrower)
                until = time.monotonic() + TIMEOUT_S
                while any(one["leased"] for one in await supervisor.health()):
                    assert time.monotonic() < until, await supervisor.health()
                    await asyncio.sleep(0.1)
        finally:
            await supervisor.close()

    asyncio.run(main())


def running(name: str) -> bool:
    import docker

    client = docker.APIClient()
    try:
        return bool(client.containers(all=True, filters={"name": name}))
    finally:
        client.close()
