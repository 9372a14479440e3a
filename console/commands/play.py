"""One episode played by a person in the terminal: ``envs.play`` with stdin's lines and text made safe to show."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..terminal.output import GUTTER, console
from ..terminal.sanitize import clean, indented

if TYPE_CHECKING:
    from ...envs.base import Image


def play_episode(env_id: str, *, seed: int, split: str, options: dict[str, Any]) -> None:
    """Play until the episode ends, or the person does.

    Raises:
        UnknownEnvironment: no such id.
        Exit: the environment failed; it was told how.
    """
    from ...envs.errors import EnvironmentFailed
    from ...envs.registry import make
    from ...envs.tools.play import play

    out = console()
    kept = _Kept()
    env = make(env_id, **options)
    try:
        play(env, _lines(), lambda text: out.print(clean(text), soft_wrap=True), kept, seed=seed, split=split)
    except EnvironmentFailed as failed:
        console(stderr=True).print(f"turnwise: {env_id} {indented(str(failed), GUTTER)}", soft_wrap=True)
        raise typer.Exit(1) from None
    finally:
        env.close()


class _Kept:
    """Pictures in a new temporary folder, numbered; it is left there."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.count = 0

    def __call__(self, picture: "Image") -> str:
        from ...envs.runner.observations import png

        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="turnwise-play-"))
        path = self.folder / f"{self.count}.png"
        self.count += 1
        path.write_bytes(png(picture))
        return str(path)


def _lines() -> Iterator[str]:
    """What is typed, with a prompt where somebody is there to see it."""
    while True:
        if sys.stdin.isatty():
            sys.stdout.write("> ")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return
        yield line
