"""Draw the pictures of the page about desktops, of real desktops, next to this file: screens and an episode.

Requires Docker.

python docs/images/desktop_pictures.py
"""

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from turnwise.envs.spaces import Png
from turnwise.envs.worlds.computer.elements import resolve
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.desktop.task import DesktopTask
from turnwise.envs.worlds.tiny.desktop import TinyDesktopEnv, buttons
from turnwise.sandbox import set_provider
from turnwise.sandbox.provider import InProcessProvider

FOLDER = Path(__file__).parent
NOTES = b"Shopping\n--------\nbread\nbutter\ncoffee\n"
SCREENS: dict[str, tuple[DesktopTask, Sequence[str], bool]] = {
    "desktop_applications": (
        DesktopTask("", ("pcmanfm .", "mousepad notes.txt", "galculator"), {"notes.txt": NOTES, "photos/": b""}),
        ("click({button '4'})", "click({button '2'})"),
        False,
    ),
    "desktop_marks": (
        DesktopTask("", ("mousepad notes.txt",), {"notes.txt": NOTES}),
        ("click({menuitem 'Edit'})",),
        True,
    ),
    "desktop_spreadsheet": (
        DesktopTask("", ("gnumeric",)),
        ('type("bread\\t2.40\\nbutter\\t1.90\\ncoffee\\t6.50\\n")', 'type("total\\t=sum(B1:B3)\\n")'),
        False,
    ),
}

EPISODE_SEED = 1_000_059
EPISODE = ("click 7", "click erase", "click 5")
"""A held-out task, and the actions of the policy that `examples/tiny_desktop.toml` with seed 1 trained."""
MARGIN, CAPTION, GAP = 14, 58, 12
GROUND, INK, QUIET, MARK = "white", "#1d2b3a", "#5b6b7b", "#d62728"


class Shown(DesktopEnv):
    """An environment whose task is given."""

    given = DesktopTask("")

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the given task."""
        return self.given


def strip(env: TinyDesktopEnv) -> Image.Image:
    """Play the episode; return one picture per turn: the calculator with the click, the observation and the action."""
    observation, _ = env.reset(seed=EPISODE_SEED, options={"split": "test"})
    panels = []
    for turn, action in enumerate((*EPISODE, "")):
        text = str(observation).partition(" buttons")[0]
        left, top, width, height = next(node["rect"] for node in env._nodes if node["role"] == "window")
        picture = env.screenshot()
        assert picture is not None  # noqa: S101 - the desktop runs
        screen = Image.open(io.BytesIO(picture)).convert("RGB")
        if action:
            x, y, w, h = buttons(env._nodes)[action.split()[1]]["rect"]
            ImageDraw.Draw(screen).rounded_rectangle((x - 2, y - 2, x + w + 1, y + h + 1), 6, outline=MARK, width=3)
        panel = Image.new("RGB", (width + GAP, height + CAPTION + MARGIN), GROUND)
        panel.paste(screen.crop((left, top, left + width, top + height)), (GAP // 2, CAPTION))
        pen = ImageDraw.Draw(panel)
        pen.text((GAP // 2, 8), f"{turn + 1}  {text}", INK, ImageFont.load_default(15))
        pen.text((GAP // 2, 31), action or "reward 1", MARK if action else QUIET, ImageFont.load_default(17))
        panels.append(panel)
        if action:
            observation, *_ = env.step(action)
    whole = Image.new("RGB", (sum(panel.width for panel in panels), panels[0].height), GROUND)
    for place, panel in enumerate(panels):
        whole.paste(panel, (place * panel.width, 0))
    return whole


def main() -> None:
    """Draw all pictures."""
    provider = InProcessProvider("docker", capacity=2, warm=0)
    set_provider(provider)
    tiny, env = TinyDesktopEnv(), Shown("both")
    try:
        for name, (task, actions, marks) in SCREENS.items():
            env.given, env.marks = task, marks
            env.reset(seed=0)
            for action in actions:
                env.step(resolve(action, env.nodes))
            observation, *_ = env.step("wait(300)")
            picture = observation["image"] if isinstance(observation, dict) else b""
            assert isinstance(picture, Png)  # noqa: S101 - narrows the type
            (FOLDER / f"{name}.png").write_bytes(picture)
        strip(tiny).save(FOLDER / "desktop_episode.png", optimize=True)
    finally:
        tiny.close()
        env.close()
        set_provider(None)
        provider.close()


if __name__ == "__main__":
    main()
