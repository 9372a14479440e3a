"""A run on a Ray cluster of several hosts: its store must be in their reach, and its workers follow the nodes."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.placement import on_node
from turnwise.errors import TurnwiseError
from turnwise.store.database import open_database
from turnwise.store.queries import list_runs
from turnwise.store.run_store import RunStore
from turnwise.tests.store.postgres import Server
from turnwise.trainer.cluster.actors import StoreAccess, worker_nodes
from turnwise.trainer.cluster.ray_patches import shut_ray_down, start_fewer_processes
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.rollout import worker_pool
from turnwise.trainer.rollout.worker_pool import WorkerPool
from turnwise.trainer.run.run import train

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
SMALL = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def head() -> Iterator[Any]:
    """Start a cluster of one node for the run and one for sandboxes, which the tests share."""
    for name, value in (("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        os.environ.setdefault(name, value)
    from ray.cluster_utils import Cluster

    shut_ray_down()
    start_fewer_processes()
    started = Cluster(initialize_head=True, head_node_args=SMALL)
    started.sandboxes = started.add_node(**SMALL, node_ip_address="127.0.0.2", labels={"turnwise": "sandboxes"})
    yield started
    started.shutdown()


@pytest.fixture
def cluster(head: Any) -> Iterator[Any]:
    """A head, which the driver joins, and nodes that a test adds under other addresses of the loopback interface."""
    yield head
    for node in set(head.worker_nodes) - {head.sandboxes}:
        head.remove_node(node)
    shut_ray_down()


def test_an_sqlite_store_is_refused_on_several_hosts(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(**SMALL, node_ip_address="127.0.0.3")
    url = f"sqlite:///{tmp_path}/turnwise.db"
    config = parse_config(
        {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], "ray_address": cluster.address, "seed": 1}
    )
    with pytest.raises(TurnwiseError, match=r"SQLite file.*other hosts \(`127\.0\.0\.3`\): use a PostgreSQL store"):
        train(config, store_url=url)
    database = open_database(url)
    with database.read() as conn:
        assert list_runs(conn) == []
    database.close()


@pytest.mark.soak
def test_each_node_of_a_cluster_has_a_writer(cluster: Any, tmp_path: Path) -> None:
    import ray

    cluster.add_node(**SMALL, node_ip_address="127.0.0.3")
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    server = Server()
    database = open_database(server.url(server.create()), create=True)

    async def scenario() -> None:
        access = StoreAccess.start(database, None)
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        assert sorted(hosts[node] for node in access.writers) == ["127.0.0.1", "127.0.0.3"]
        joined = cluster.add_node(**SMALL, node_ip_address="127.0.0.4").node_id
        assert list(access.writers_for(joined))[-1] == joined
        assert len(access.writers_for(joined)) == 3, "a node has one writer"
        for writer in access.writers.values():
            assert await writer.ping.remote()
        await RunStore("r", database, access.client).create(config={}, config_hash="", kind="eval", code_version="")
        await access.close()

    asyncio.run(scenario())
    with database.read() as conn:
        assert [row.id for row in list_runs(conn)] == ["r"]
    database.close()
    server.stop()


def test_workers_follow_the_nodes_that_join_and_leave(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    class Worker:
        """A rollout worker that returns its node. Ray pickles a local class, so its process imports little."""

        async def ready(self) -> bool:
            return True

        async def node(self) -> str:
            import ray

            return ray.get_runtime_context().get_node_id()

        async def own_node(self) -> str:
            from turnwise.agents.placement import own_node

            return own_node()

        async def close(self) -> None:
            """Do nothing: it holds no environment."""

    monkeypatch.setattr(worker_pool, "CHECK_INTERVAL_S", 0.5)
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    config, two = (
        parse_config(
            {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], "rollout": {"workers_per_node": n}}
        )
        for n in (1, 2)
    )
    actor = ray.remote(Worker)

    async def nodes_of(pool: WorkerPool, count: int) -> list[str]:
        async with asyncio.timeout(90):
            while len(pool.actors) != count:
                await asyncio.sleep(0.1)
            return sorted([await one.node.remote() for one in pool.actors])

    async def scenario() -> None:
        head = worker_nodes(config)
        pool = WorkerPool(lambda node: actor.options(num_cpus=0, **on_node(node)).remote(), head)
        pool.follow(partial(worker_nodes, config))
        assert await nodes_of(pool, 1) == head
        joined = cluster.add_node(**SMALL, node_ip_address="127.0.0.3")
        assert await nodes_of(pool, 2) == sorted([*head, joined.node_id])
        assert sorted(worker_nodes(two)) == sorted([*head, joined.node_id] * 2)
        assert len({await one.own_node.remote() for one in pool.actors}) == 2
        cluster.remove_node(joined)
        assert await nodes_of(pool, 1) == head
        await pool.close()

    asyncio.run(scenario())
