"""One episode played by a person in the terminal: ``envs.play`` with stdin's lines and text made safe to show."""

import sys
from collections.abc import Iterator
from typing import Any

from .output import console
from .safe import clean


def play_episode(env_id: str, *, seed: int, split: str, options: dict[str, Any]) -> None:
    """Play until the episode ends, or the person does.

    Raises:
        UnknownEnvironment: no such id.
    """
    from ..envs.play import play
    from ..envs.registry import make

    out = console()
    env = make(env_id, **options)
    try:
        play(env, _lines(), lambda text: out.print(clean(text), soft_wrap=True), seed=seed, split=split)
    finally:
        env.close()


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
