"""The worlds of the apps are pure functions of the seed, JSON values, and complete."""

import json
from datetime import date
from typing import Any

import pytest
from turnwise.envs.worlds.web.apps.tasks import TEMPLATES, draw
from turnwise.envs.worlds.web.apps.worlds import shop as world_shop
from turnwise.envs.worlds.web.apps.worlds import tracker as world_tracker
from turnwise.envs.worlds.web.apps.worlds import wiki as world_wiki

WORLDS = {"shop": world_shop.world, "tracker": world_tracker.world, "wiki": world_wiki.world}


@pytest.mark.parametrize("site", WORLDS)
def test_a_world_is_a_pure_function_of_its_seed(site: str) -> None:
    make = WORLDS[site]
    assert json.dumps(make(3)) == json.dumps(make(3))
    assert make(3) != make(4)
    assert json.loads(json.dumps(make(3))) == make(3)
    assert make(3)["site"] == site


def dates(value: Any) -> list[str]:
    rows = [row for table in value["tables"].values() for row in table]
    return [row[name] for row in rows for name in ("date", "due", "created") if name in row]


@pytest.mark.parametrize("site", WORLDS)
def test_every_date_is_valid(site: str) -> None:
    for seed in range(5):
        world = WORLDS[site](seed)
        assert all(date.fromisoformat(text) for text in (*dates(world), world["today"]))


def test_every_seed_has_a_task() -> None:
    for name in TEMPLATES:
        for seed in range(200, 208):
            assert draw(name, seed).goal
