"""An environment that prints in every way, in every call, or replaces a stream. ``PRINTS`` is its id."""

import ctypes
import os
import subprocess
import sys
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

PRINTS = "turnwise.tests.base.process.prints:prints/Prints-v0"
NOISE = "noise of an environment"

print(NOISE, "import", flush=True)


def print_from_c() -> None:
    library = ctypes.CDLL(None)
    library.printf(f"{NOISE} c\n".encode())
    library.fflush(None)


WAYS = {
    "print": lambda: print(NOISE),
    "sys.__stdout__": lambda: print(NOISE, file=sys.__stdout__, flush=True),
    "descriptor": lambda: os.write(1, NOISE.encode()),
    "c": print_from_c,
    "program": lambda: subprocess.run(["echo", NOISE], check=True),
    "replaces": lambda: setattr(sys, "stdout", open(os.devnull, "w")),  # noqa: SIM115, PTH123
    "removes": lambda: setattr(sys, "stdout", None),
}


class Prints(TurnEnv):
    """Prints in ``WAYS[way]`` in every call; an episode has two turns."""

    def __init__(self, way: str = "print") -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))
        self._make_noise = WAYS[way]
        self._make_noise()

    def instructions(self) -> str:
        self._make_noise()
        return "go"

    def oracle(self) -> str:
        self._make_noise()
        return "go"

    def valid_actions(self) -> list[tuple[str, float]]:
        self._make_noise()
        return [("go", 1.0)]

    def vocabulary(self) -> list[str]:
        self._make_noise()
        return ["go", "on"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self._make_noise()
        self._turns = 0
        return "on", {"state_key": "on"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self._make_noise()
        self._turns += 1
        return "on", 0.5, self._turns == 2, False, {"action_valid": action == "go", "state_key": "on", "success": True}

    def close(self) -> None:
        self._make_noise()


gymnasium.register("prints/Prints-v0", entry_point=f"{__name__}:Prints")
