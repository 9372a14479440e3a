"""The choice of the weight transport, by where learner and engines run."""

from typing import Any

import pytest
from turnwise.agents.weights.base import Link
from turnwise.errors import TurnwiseError
from turnwise.trainer.cluster.weight_link import weight_link
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig

GPU = {"tensor_parallel_size": 2}


def config(learner: dict[str, Any] | None = None, engine: dict[str, Any] | None = None) -> RunConfig:
    environments = [{"id": "turnwise/TextSite-v0"}]
    return parse_config({"name": "r", "environments": environments, "learner": learner or {}, "engine": engine or {}})


@pytest.mark.parametrize(
    ("learner", "engine", "nodes", "expected"),
    [
        ({}, {}, {"a"}, "shm"),
        ({}, {}, {"a", "b"}, "collective"),
        ({"device": "cuda"}, GPU, {"a"}, "shm"),
        ({"backend": "fsdp", "device": "cuda"}, {}, {"a"}, "shm"),
        ({"backend": "fsdp", "device": "cuda"}, GPU, {"a"}, "collective"),
        ({"weight_transport": "collective"}, {}, {"a"}, "collective"),
        ({"weight_transport": "shm", "backend": "fsdp", "device": "cuda"}, GPU, {"a"}, "shm"),
    ],
)
def test_nodes_and_devices_choose_the_transport(
    learner: dict[str, Any], engine: dict[str, Any], nodes: set[str], expected: str
) -> None:
    name, _ = weight_link(config(learner, engine), "a", nodes)
    assert name == expected


def test_shared_memory_does_not_reach_another_node() -> None:
    with pytest.raises(TurnwiseError, match=r"`a` alone, and engines run on b: .*`collective`"):
        weight_link(config({"weight_transport": "shm"}), "a", {"a", "b"})


def test_the_link_has_the_workers_of_an_engine() -> None:
    assert weight_link(config(), "a", {"a"})[1] == Link()
    assert weight_link(config(engine=GPU), "a", {"b"})[1] == Link(0, 2, engines_on_gpu=True, one_node=False)


def test_the_configuration_refuses_an_unknown_transport() -> None:
    with pytest.raises(ConfigError, match=r"learner\.weight_transport.*no weight transport is called `shn`"):
        config({"weight_transport": "shn"})


def test_the_transport_is_not_part_of_the_mathematics() -> None:
    assert config({"weight_transport": "collective"}).digest() == config().digest()
