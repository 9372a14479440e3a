"""A run is not resumed with other rows than those that it played."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from turnwise.store.database import Database, open_database
from turnwise.tests.envs.dataset.capitals import CAPITALS, Capitals
from turnwise.tests.store.making import call, group, sqlite_store, start
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.preflight.environments import changed_tasks
from turnwise.trainer.preflight.refusal import Command, Refused

from .refusing import call as call_check

ENV = "dataset/Changing-v0"


def register(rows: list[dict[str, Any]]) -> None:
    """Register an environment whose rows for training are ``rows``."""
    load = {"load": lambda self, split: rows if split == "train" else CAPITALS[:1]}
    changing: Any = type("Changing", (Capitals,), load)
    gymnasium.registry.pop(ENV, None)
    gymnasium.register(ENV, entry_point=changing)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Database]:
    """Return a store whose run ``r`` played the second row."""
    register(CAPITALS)
    database = open_database(sqlite_store(tmp_path))
    start(database)
    seed = Capitals().tasks("train")[1]
    call(
        database, "open_group", group=replace(group("g"), task=replace(group().task, env_id=ENV, seed=seed, options={}))
    )
    yield database
    database.close()
    gymnasium.registry.pop(ENV)


def resume(database: Database) -> None:
    config = parse_config({"name": "r", "environments": [{"id": ENV}]})
    call_check(changed_tasks, config, Command.RESUME, database=database, run="r")


@pytest.mark.parametrize("changed", [CAPITALS[::-1], CAPITALS[:1], [CAPITALS[0], {**CAPITALS[1], "letters": 5}]])
def test_a_resume_with_other_rows_is_refused(played: Database, changed: list[dict[str, Any]]) -> None:
    resume(played)
    register([*CAPITALS, {"question": "new?", "answer": "yes", "letters": 3}])
    resume(played)
    register(changed)
    with pytest.raises(Refused, match=r"no longer has 1 of the 1 tasks of `train` that run `r` played: its rows"):
        resume(played)
