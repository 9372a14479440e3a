"""Transports are registered by entry points and chosen by name."""

import tomllib
from pathlib import Path

import pytest
import torch
from turnwise.agents.weights.base import GROUP, SHIPPED, Link, check_name, registered, transport
from turnwise.agents.weights.collective import CollectiveTransport
from turnwise.agents.weights.shm import ShmTransport
from turnwise.agents.weights.source import ParameterSource
from turnwise.errors import TurnwiseError

ROOT = Path(__file__).parents[3]


def test_the_shipped_transports_are_entry_points_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == SHIPPED
    assert registered() == SHIPPED


def test_a_name_selects_a_transport() -> None:
    assert isinstance(transport("shm"), ShmTransport)
    assert isinstance(transport("collective"), CollectiveTransport)
    with pytest.raises(TurnwiseError, match="no weight transport is called `shn`"):
        transport("shn")


def test_a_package_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHIPPED, "broken", "turnwise.no_such_module:Transport")
    registered.cache_clear()
    with pytest.raises(TurnwiseError, match=r"`broken` is registered as `turnwise\.no_such_module:Transport`"):
        transport("broken")
    registered.cache_clear()


def test_a_configuration_names_a_transport_or_auto() -> None:
    assert [check_name(name) for name in ("auto", "shm", "ipc")] == ["auto", "shm", "ipc"]
    with pytest.raises(ValueError, match="did you mean 'collective'"):
        check_name("colective")


def test_ipc_is_refused_without_a_shared_gpu() -> None:
    source = ParameterSource([("weight", torch.zeros(2))])
    for link in (Link(), Link(engines_on_gpu=True), Link(engines_on_gpu=True, workers_per_engine=2)):
        with pytest.raises(TurnwiseError, match=r"`ipc` needs learner and engine on one GPU: set `learner\.device`"):
            transport("ipc").sender(source, link)
