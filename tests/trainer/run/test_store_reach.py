"""A store that other hosts of a Ray cluster cannot write to is refused before the run begins."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from turnwise.agents.placement import own_node
from turnwise.errors import TurnwiseError
from turnwise.store.database import open_database
from turnwise.store.queries import list_runs
from turnwise.store.run_store import RunStore
from turnwise.tests.store.postgres import Server
from turnwise.trainer.cluster.actors import StoreAccess
from turnwise.trainer.cluster.ray_patches import shut_ray_down, start_fewer_processes
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.run.run import train

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
SMALL = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head, which the driver joins, and nodes that a test adds under other addresses of the loopback interface."""
    for name, value in (("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        os.environ.setdefault(name, value)
    from ray.cluster_utils import Cluster

    shut_ray_down()
    start_fewer_processes()
    started = Cluster(initialize_head=True, head_node_args=SMALL)
    yield started
    shut_ray_down()
    started.shutdown()


def test_an_sqlite_store_is_refused_on_several_hosts(cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(**SMALL, node_ip_address="127.0.0.2", labels={"turnwise": "sandboxes"})
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

    cluster.add_node(**SMALL, node_ip_address="127.0.0.2", labels={"turnwise": "sandboxes"})
    cluster.add_node(**SMALL, node_ip_address="127.0.0.3")
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    server = Server()
    database = open_database(server.url(server.create()), create=True)

    async def scenario() -> None:
        access = StoreAccess.start(database, None)
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
        assert sorted(hosts[node] for node in access.writers) == ["127.0.0.1", "127.0.0.3"]
        for writer in access.writers.values():
            assert await writer.ping.remote()
        await RunStore("r", database, access.client).create(config={}, config_hash="", kind="eval", code_version="")
        await access.close()

    asyncio.run(scenario())
    with database.read() as conn:
        assert [row["id"] for row in list_runs(conn)] == ["r"]
    database.close()
    server.stop()


@pytest.mark.soak
def test_two_nodes_with_one_host_name_are_distinct(cluster: Any) -> None:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    cluster.add_node(**SMALL, node_ip_address="127.0.0.2")
    ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
    named = ray.remote(own_node)
    found = {}
    for node in ray.nodes():
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        found[node["NodeManagerAddress"]] = ray.get(named.options(num_cpus=0, scheduling_strategy=there).remote())
    assert len(set(found.values())) == 2
    assert found["127.0.0.1"] == own_node(), "the driver is on the head's node"
