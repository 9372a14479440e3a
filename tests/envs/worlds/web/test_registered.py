"""The web environments are registered by id; no sandbox is started."""

from turnwise.envs import all_ids, make
from turnwise.envs.worlds.web.apps.env import WebAppsEnv
from turnwise.envs.worlds.web.miniwob import TASKS
from turnwise.envs.worlds.web.miniwob.env import MiniWoBEnv


def test_every_task_is_registered() -> None:
    assert {f"turnwise/MiniWoB-{name}-v0" for name in TASKS} <= set(all_ids())
    assert len(TASKS) > 100
    assert isinstance(make("turnwise/MiniWoB-click-test-v0"), MiniWoBEnv)
    assert isinstance(make("turnwise/WebApps-v0"), WebAppsEnv)
