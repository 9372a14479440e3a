"""A Gymnasium world of another project, with numbered actions and arrays of pixels, is an environment for a policy that
sees: the wrapper of ``examples/pixel_world.py``."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from turnwise.envs.authoring.check import check
from turnwise.envs.runner.observations import split
from turnwise.envs.spaces import Png, has_images

EXAMPLES = Path(__file__).parents[3] / "examples"
SIDE_PX = 28


class Corridor(gymnasium.Env[dict[str, Any], int]):
    """A square in a corridor of four places, seen from above; it has to reach the right end."""

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
        image = gymnasium.spaces.Box(0, 255, (SIDE_PX, 4 * SIDE_PX, 3), np.uint8)
        self.observation_space = gymnasium.spaces.Dict({"image": image})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.color = int(self.np_random.integers(3)), self.np_random.integers(9, 256, 3, np.uint8)
        return self._seen(), {}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.place = min(max(self.place + (1 if action else -1), 0), 3)
        return self._seen(), float(self.place == 3), self.place == 3, False, {}

    def _seen(self) -> dict[str, Any]:
        image = np.zeros((SIDE_PX, 4 * SIDE_PX, 3), np.uint8)
        image[:, SIDE_PX * self.place : SIDE_PX * (self.place + 1)] = self.color
        return {"image": image}


class Bare(gymnasium.ObservationWrapper[Any, int, dict[str, Any]]):
    """The same with the pixels alone as the observation."""

    def __init__(self, world: Corridor) -> None:
        super().__init__(world)
        self.observation_space = world.observation_space["image"]  # type: ignore[index]

    def observation(self, observation: dict[str, Any]) -> Any:
        return observation["image"]


@pytest.fixture(params=[Corridor, lambda: Bare(Corridor())], ids=["dictionary", "pixels alone"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    from pixel_world import PixelWorld  # type: ignore[import-not-found]

    return PixelWorld(request.param(), ("left", "right"), "reach the right end")


def test_the_pixels_of_another_project_leave_as_png_files(world: Any) -> None:
    assert has_images(world.observation_space)
    observation, _ = world.reset(seed=3)
    text, (file,) = split(observation)
    picture = Png(file)
    assert (text, picture.width, picture.height) == ("reach the right end", 4 * SIDE_PX, SIDE_PX)
    assert (picture.pixels() == observation["image"]).all()
    seen, reward, ended, _, info = world.step(" right\n")
    assert (reward, ended, info["action_valid"], "success" in info) == (float(ended), ended, True, ended)
    assert seen["image"] is not observation["image"]
    assert world.step("jump")[4]["action_valid"] is False
    assert {"left", "right", "reach", "action:"} <= set(world.vocabulary())


def test_the_splits_of_another_projects_world_differ(world: Any) -> None:
    first = {split: world.reset(seed=0, options={"split": split})[0]["image"].tobytes() for split in ("train", "test")}
    assert first["train"] != first["test"]


def test_the_world_passes_the_check(world: Any) -> None:
    made: Any = lambda: type(world)(Corridor(), world.actions, world.mission)  # noqa: E731
    gymnasium.register("corridor/Pixels-v0", entry_point=made)
    try:
        report = check("corridor/Pixels-v0")
    finally:
        del gymnasium.registry["corridor/Pixels-v0"]
    assert report.ok, report.lines()
