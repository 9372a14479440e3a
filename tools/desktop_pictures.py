"""Draw the pictures of the page about desktops: three screens of real desktops, into docs/images. Requires Docker.

python tools/desktop_pictures.py
"""

from collections.abc import Sequence
from pathlib import Path

from turnwise.envs.desktop.env import DesktopEnv
from turnwise.envs.desktop.oracle import play
from turnwise.envs.desktop.task import DesktopTask
from turnwise.envs.spaces import Png
from turnwise.sandbox import set_provider
from turnwise.sandbox.provider import InProcessProvider

FOLDER = Path(__file__).parents[1] / "docs/images"
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


class Shown(DesktopEnv):
    """An environment whose task is given."""

    given = DesktopTask("")

    def start_episode(self, seed: int, split: str) -> DesktopTask:
        """Return the given task."""
        return self.given


def main() -> None:
    """Draw all pictures."""
    provider = InProcessProvider("docker", capacity=1, warm=0)
    set_provider(provider)
    env = Shown("both")
    try:
        for name, (task, actions, marks) in SCREENS.items():
            env.given, env.marks = task, marks
            env.reset(seed=0)
            play(env, actions)
            observation, *_ = env.step("wait(300)")
            picture = observation["image"] if isinstance(observation, dict) else b""
            assert isinstance(picture, Png)  # noqa: S101 - narrows the type
            (FOLDER / f"{name}.png").write_bytes(picture)
    finally:
        env.close()
        set_provider(None)
        provider.close()


if __name__ == "__main__":
    main()
