"""Minigrid in pixels, after ``pip install minigrid``.

``PYTHONPATH=examples turnwise envs check minigrid_world:Empty-v0``

That check finds one fault, which is pygame's: Minigrid imports it, and it replaces the handlers of four fatal signals.
A process that gets one of these ends all the same.

``Empty-Random-5x5`` has few starts, so a held-out seed there is another draw of them, and not a new picture.
"""

import gymnasium
import minigrid  # noqa: F401 - registers its worlds
from minigrid.wrappers import RGBImgPartialObsWrapper
from pixel_world import PixelWorld

ACTIONS = ("left", "right", "forward", "pick", "drop", "toggle", "done")
"""The words for Minigrid's actions, by their numbers."""


def seen(task: str = "MiniGrid-Empty-Random-5x5-v0", tile_px: int = 12) -> PixelWorld:
    """Return a task as the agent sees it: 7 x 7 tiles, 84 x 84 pixels."""
    world = RGBImgPartialObsWrapper(gymnasium.make(task), tile_size=tile_px)
    return PixelWorld(world, ACTIONS, "get to the green goal square")


gymnasium.register("Empty-v0", entry_point=seen)
