"""MiniWoB++ as environments: ``env`` opens and scores a task; ``tasks.toml`` lists the tasks and their properties.

To change which pages are reused in place: ``not_in_place`` there, verified by a test that plays both ways.
"""

import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
_LISTS = tomllib.loads((FOLDER / "tasks.toml").read_text())
TASKS = tuple[str, ...](_LISTS["tasks"])
MOVING, LATE_ICONS = frozenset[str](_LISTS["moving"]), frozenset[str](_LISTS["late_icons"])
"""Tasks that depend on time, and those whose screenshots do until icons have loaded."""
IN_PLACE = frozenset(TASKS) - LATE_ICONS - frozenset(_LISTS["not_in_place"])
"""Tasks whose page can start another episode in place, by ``tests/envs/worlds/web/miniwob/test_in_place.py``."""
