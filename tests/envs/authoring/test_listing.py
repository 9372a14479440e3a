"""A list of environments counts tasks without a sandbox, and states the reason where it cannot."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from turnwise.envs.authoring.listing import listed
from turnwise.envs.base import Info, Obs, TurnEnv


class Rows(TurnEnv):
    """Answer a question of a table.

    More on it.
    """

    def __init__(self, rows: int = 3) -> None:
        if rows < 0:
            raise ValueError("no rows")
        self.rows = rows

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        return "", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "", 0.0, True, False, {}

    def tasks(self, split: str) -> range | None:
        return range(self.rows) if split == "train" else range(2)


class Leasing(Rows):
    sandboxed = True

    def __init__(self) -> None:
        raise AssertionError("a sandboxed environment is not made")


@pytest.fixture
def registered() -> Iterator[None]:
    kinds: dict[str, tuple[Any, dict[str, int]]] = {
        "mine/Rows-v0": (Rows, {}),
        "mine/Broken-v0": (Rows, {"rows": -1}),
        "mine/Leasing-v0": (Leasing, {}),
        "mine/Lost-v0": ("no_such_module:Env", {}),
    }
    for name, (entry, options) in kinds.items():
        gymnasium.register(name, entry_point=entry, kwargs=options)
    yield
    for name in kinds:
        gymnasium.registry.pop(name)


@pytest.mark.usefixtures("registered")
def test_the_tasks_of_the_users_environments_are_counted_first() -> None:
    rows = listed(unfold=False)
    own = [row for row in rows if row.id.startswith("mine/")]
    assert max(map(rows.index, own)) < min(rows.index(row) for row in rows if row.id.startswith("turnwise/"))
    broken, leasing, lost, found = own
    assert (found.tasks, found.description, found.unknown) == (
        {"train": 3, "test": 2},
        "Answer a question of a table.",
        "",
    )
    assert (leasing.tasks, leasing.unknown, leasing.sandboxed) == (None, "it leases a sandbox", True)
    assert broken.tasks is None
    assert "no rows" in broken.unknown
    assert "no_such_module" in lost.unknown
