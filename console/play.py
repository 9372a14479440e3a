"""One episode played by hand, in the terminal: the same environment, the same observations, a person's actions."""

import tempfile
from pathlib import Path
from typing import Any

import typer

from ..envs import registry
from ..envs.base import TurnEnv
from ..envs.observations import split as split_observation
from .output import console
from .safe import clean, one_line


def play_episode(env_id: str, *, seed: int, split: str, options: dict[str, Any]) -> None:
    """Play until the episode ends or the person does; images are written to a folder that is named.

    Raises:
        UnknownEnvironment: no such id.
    """
    out = console()
    pictures = Path(tempfile.mkdtemp(prefix="turnwise-play-"))
    env = registry.make(env_id, **options)
    try:
        observation, _ = env.reset(seed=seed, options={"split": split})
        if env.instructions():
            out.print(clean(env.instructions()))
        total, turn, over = 0.0, 0, False
        _show(observation, pictures, turn)
        while not over:
            action = _ask(env)
            if action is None:
                break
            observation, reward, terminated, truncated, info = env.step(action)
            turn, total, over = turn + 1, total + float(reward), terminated or truncated
            _show(observation, pictures, turn)
            verdict = "" if info.get("step_valid", True) else ", invalid"
            out.print(f"turn {turn}: reward {float(reward):+g}{verdict}", soft_wrap=True)
        ending = f"success {info.get('success')}" if over else "given up"
        out.print(f"{ending} after {turn} turns, reward {total:g}")
    finally:
        env.close()
        if not any(pictures.iterdir()):
            pictures.rmdir()


def _ask(env: TurnEnv) -> str | None:
    """The next action; None where the person ends it."""
    while True:
        try:
            line = typer.prompt(">", prompt_suffix=" ", default="", show_default=False)
        except typer.Abort:
            return None
        if line:
            return str(line)
        try:
            valid = sorted({action for action, _ in env.valid_actions()})
        except NotImplementedError:
            valid = ["this environment does not list its valid actions"]
        for action in valid:
            console().print(f"  {one_line(action)}", soft_wrap=True)


def _show(observation: Any, pictures: Path, turn: int) -> None:
    text, images = split_observation(observation)
    if text:
        console().print(clean(text), soft_wrap=True)
    for number, png in enumerate(images):
        path = pictures / f"turn-{turn}-{number}.png"
        path.write_bytes(png)
        console().print(f"image: {path}", soft_wrap=True)
