"""A name that only data holds imports nothing; a name that a person gave does."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from turnwise.base.process.user_code import admit, admit_only, imported
from turnwise.envs import registry
from turnwise.envs.errors import UnknownEnvironment
from turnwise.envs.worlds.semi_online.env import find_matcher
from turnwise.trainer.algorithms.losses.base import AggregatedLoss
from turnwise.trainer.algorithms.registry import component_class
from turnwise.trainer.config.loading import load_config
from turnwise.trainer.telemetry.trackers.base import tracker_class

RESOLVERS: list[Callable[[str], Any]] = [
    registry.spec,
    lambda name: component_class(AggregatedLoss, name),
    imported,
    tracker_class,
    find_matcher,
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a module that can be imported; names import nothing until the end of the test."""
    (tmp_path / "of_data.py").write_text("Name = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    admit_only(())
    yield "of_data"
    admit_only(None)
    sys.modules.pop("of_data", None)


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_a_name_in_data_imports_nothing(resolve: Callable[[str], Any], module: str) -> None:
    with pytest.raises(Exception, match=f"a name in data imports nothing; .* add `--import {module}`"):
        resolve(f"{module}:Name")
    assert module not in sys.modules


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_a_loaded_module_of_python_is_not_a_name_of_data_either(resolve: Callable[[str], Any], module: str) -> None:
    with pytest.raises(Exception, match="imports nothing"):
        resolve("os:system")


@pytest.mark.parametrize("given", ["of_data:Name", 'loss.name="of_data:Name"', {"a": [{"id": "of_data:Name"}]}])
def test_a_name_that_a_person_gave_is_imported(given: object, module: str) -> None:
    admit(given)
    assert imported(f"{module}:Name") == 3


def test_a_configuration_file_admits_its_names(module: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f'name = "r"\nmodel = {{ path = "m" }}\n[[environments]]\nid = "{module}:Name-v0"\n')
    load_config(file)
    with pytest.raises(UnknownEnvironment, match="names its ids"):
        registry.spec(f"{module}:Name-v0")


def test_a_suggested_command_quotes_the_module(module: str) -> None:
    with pytest.raises(UnknownEnvironment, match=r"--import 'x; rm -rf '`"):
        registry.spec("x; rm -rf :Id-v0")
