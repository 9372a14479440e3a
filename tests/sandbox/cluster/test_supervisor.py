"""Sandboxes driven by Ray: several nodes on one machine, leases across them, a node that joins and one that is lost."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.sandbox import ExecResult, SandboxLease, SandboxSpec
from turnwise.sandbox.cluster.client import ClusterProvider
from turnwise.sandbox.cluster.settings import SandboxSettings
from turnwise.sandbox.cluster.supervisor import NodeSupervisor
from turnwise.sandbox.errors import LeaseTimeout, NodeLost

SPEC = SandboxSpec(memory_mib=128, disk_mib=16)
TRUSTED = SPEC.model_copy(update={"trusted": True})
PER_NODE = 2
NODES = 3
LONG = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    for name, value in (("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        os.environ.setdefault(name, value)
    import ray
    from ray.cluster_utils import Cluster

    # What other tests of this process started in their own way is theirs to start again.
    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80 << 20})
    for _ in range(NODES - 1):
        made.add_node(num_cpus=1, object_store_memory=80 << 20)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    yield made
    ray.shutdown()
    made.shutdown()


def lease_all(source: ClusterProvider, count: int) -> list[SandboxLease]:
    """Lease at once, from as many threads."""
    got: list[SandboxLease] = []
    threads = [
        threading.Thread(target=lambda: got.append(source.lease(SPEC, timeout_s=LONG, max_duration_s=300)))
        for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG + 20)
    return got


def hello(box: SandboxLease) -> ExecResult:
    return box.exec(["echo", "hello"], timeout_s=10)


def until_lost(box: SandboxLease) -> None:
    """Ray tells of a death when it has noticed it, and then as the world's failure."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        try:
            hello(box)
        except NodeLost:
            return
        time.sleep(0.1)
    raise AssertionError(f"{box.id} is still there")


def test_leases_go_across_nodes_wait_their_turn_and_survive_a_lost_node(cluster: Any) -> None:
    async def main() -> None:
        keeper = NodeSupervisor("across", SandboxSettings(backend="docker", per_node=PER_NODE, warm=0))
        keeper.open()
        try:
            source = ClusterProvider("across")
            boxes = await asyncio.to_thread(lease_all, source, PER_NODE * NODES)
            assert len({box.id for box in boxes}) == PER_NODE * NODES
            assert all([(await asyncio.to_thread(hello, box)).stdout == b"hello\n" for box in boxes])
            with pytest.raises(LeaseTimeout, match="on any node"):
                await asyncio.to_thread(source.lease, SPEC, timeout_s=2.0)

            # A node that joins adds its sandboxes for those who already wait.
            joining = asyncio.create_task(asyncio.to_thread(lease_all, source, PER_NODE))
            await asyncio.sleep(0.5)
            assert not joining.done()
            node = cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
            there = await joining
            assert len(there) == PER_NODE

            # A lost node's leases fail as the world's failure; the next lease is served elsewhere.
            cluster.remove_node(node, allow_graceful=False)
            for box in there:
                await asyncio.to_thread(until_lost, box)
            waiting = asyncio.create_task(asyncio.to_thread(source.lease, SPEC, timeout_s=LONG))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            boxes[0].release()
            assert (await asyncio.to_thread(hello, await waiting)).stdout == b"hello\n"
        finally:
            await keeper.close()

    asyncio.run(main())


def test_a_host_that_is_killed_comes_back_and_its_sandboxes_are_gone(cluster: Any) -> None:
    import ray

    async def main() -> None:
        keeper = NodeSupervisor("killed", SandboxSettings(backend="docker", per_node=PER_NODE, warm=0))
        keeper.open()
        try:
            source = ClusterProvider("killed")
            box = await asyncio.to_thread(source.lease, SPEC, timeout_s=LONG)
            for host in keeper.actors.values():
                ray.kill(host, no_restart=False)
            await asyncio.to_thread(until_lost, box)
            again = await asyncio.to_thread(source.lease, SPEC, timeout_s=LONG)
            assert (await asyncio.to_thread(hello, again)).stdout == b"hello\n"
            until = time.monotonic() + LONG
            while running(box.id):
                assert time.monotonic() < until
                await asyncio.sleep(0.5)
        finally:
            await keeper.close()

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["docker", "local"])
def test_a_worker_that_is_killed_gives_back_what_it_held_on_its_own_node(cluster: Any, backend: str) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Borrower:
        def borrow(self) -> bytes:
            self.box = ClusterProvider(f"near-{backend}").lease(TRUSTED, timeout_s=LONG)
            return self.box.exec(["cat"], timeout_s=10, stdin=b"a frame\n").stdout

    async def main() -> None:
        keeper = NodeSupervisor(f"near-{backend}", SandboxSettings(backend=backend, per_node=PER_NODE, warm=0))
        keeper.open()
        try:
            for node in keeper.actors:
                here = NodeAffinitySchedulingStrategy(node, soft=False)
                borrower = ray.remote(Borrower).options(num_cpus=0, scheduling_strategy=here).remote()
                assert await borrower.borrow.remote() == b"a frame\n"
                assert [one["leased"] for one in await keeper.health() if one["node"] == node] == [1]
                ray.kill(borrower)
                until = time.monotonic() + LONG
                while any(one["leased"] for one in await keeper.health()):
                    assert time.monotonic() < until, await keeper.health()
                    await asyncio.sleep(0.1)
        finally:
            await keeper.close()

    asyncio.run(main())


def running(name: str) -> bool:
    import docker

    client = docker.APIClient()
    try:
        return bool(client.containers(all=True, filters={"name": name}))
    finally:
        client.close()
