"""An offline run refuses stored groups of tasks whose verdict the agent could forge, before it starts anything."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from turnwise.records import GroupState
from turnwise.store import queries
from turnwise.store.database import Database, open_database
from turnwise.store.operations import OPERATIONS, Rewards
from turnwise.tests.envs.worlds.code.small_task import TOML, small_task
from turnwise.tests.store.making import call, group, play, sqlite_store, start
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.preflight.environments import forgeable_rewards
from turnwise.trainer.preflight.refusal import Refused
from turnwise.trainer.run.run import train

from .refusing import call as call_check

CODE = "turnwise/Code-v0"
SETTINGS: dict[str, Any] = {
    "name": "off",
    "environments": [{"id": "turnwise/TextSite-v0"}],
    "offline": {"run": "r"},
    "model": {"new": {"hidden": 32, "heads": 1, "layers": 1}},
    "rollout": {"groups_per_batch": 1},
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Callable[..., Database]]:
    """Return a function that stores one scored group of run ``r`` for an environment with options."""
    database = open_database(sqlite_store(tmp_path))
    start(database)

    def make(env_id: str = CODE, **options: Any) -> Database:
        task = replace(group().task, env_id=env_id, options=options)
        call(database, "open_group", group=replace(group("g"), task=task))
        for member in ("g-0", "g-1"):
            play(database, member, "g", int(member[-1]), turns=1)
        call(database, "close_group", group="g", state=GroupState.SCORING)
        scores = [Rewards("g-0", [0.0]), Rewards("g-1", [1.0])]
        call(database, "score_group", group="g", number=0, state=GroupState.READY, rewards=scores)
        return database

    yield make
    database.close()


def unchecked(database: Database, *environments: str) -> list[str]:
    named = [{"id": one} for one in ("turnwise/TextSite-v0", *environments)]
    notes: list[str] = []
    call_check(
        forgeable_rewards, parse_config(SETTINGS | {"environments": named}), database=database, note=notes.append
    )
    return [one.removeprefix("not checked whether an agent can forge the rewards: ") for one in notes]


@pytest.mark.parametrize("rewards", [None, "own"])
def test_stored_episodes_with_hidden_tests_are_refused(
    store: Callable[..., Database], tmp_path: Path, rewards: str | None
) -> None:
    """Such a run trained before, on rewards that the agent could forge."""
    database = store(folder=str(small_task(tmp_path / "add")))
    if rewards:
        with database.transaction() as tx:
            OPERATIONS["create_reward_set"](tx, run="r", name=rewards, component="turn_penalty", options={})
    config = parse_config(SETTINGS | {"offline": {"run": "r", "rewards": rewards}})
    with pytest.raises(Refused, match=r"task add of .*hidden `tests/`.*forge"):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db")
    with database.read() as conn:
        assert [row.id for row in queries.list_runs(conn)] == ["r"]


def test_trusted_tasks_and_other_environments_are_accepted(store: Callable[..., Database], tmp_path: Path) -> None:
    assert unchecked(store(folder=str(small_task(tmp_path / "add", toml="trusted = true\n" + TOML)))) == []


def test_an_environment_that_cannot_be_made_here_is_reported(store: Callable[..., Database], tmp_path: Path) -> None:
    (reason,) = unchecked(store(folder=str(tmp_path / "elsewhere")))
    assert "elsewhere holds no task.toml" in reason


def test_a_stored_name_imports_no_module(
    store: Callable[..., Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may hold imported episodes, and an import runs code."""
    (tmp_path / "foreign_env.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    database = store("foreign_env:Id-v0")
    (reason,) = unchecked(database)
    assert reason.startswith("foreign_env:Id-v0: `environments` does not name it")
    assert "foreign_env" not in sys.modules
    (reason,) = unchecked(database, "foreign_env:Id-v0")
    assert "no environment" in reason
    assert sys.modules.pop("foreign_env")
