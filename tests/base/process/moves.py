"""An environment that changes the folder, the variables and the umask of its process. ``MOVES`` is its id."""

import os
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

MOVES = "turnwise.tests.base.process.moves:moves/Moves-v0"


class Moves(TurnEnv):
    """Changes the process in every call that ``calls`` names; an episode has one turn."""

    def __init__(self, where: str, calls: tuple[str, ...] = ("make", "vocabulary", "reset", "step")) -> None:
        self.action_space = FreeText(words=("go", "stop"))
        self.observation_space = FreeText(words=("on",))
        self._where, self._calls = where, calls
        self._move("make")

    def _move(self, call: str) -> None:
        if call not in self._calls:
            return
        os.chdir(self._where)
        os.umask(0o077)
        os.environ |= {"OMP_NUM_THREADS": "7", "PYTHONPATH": "/nowhere", "TURNWISE_BLOBS": "elsewhere"}
        os.environ.pop("HOME", None)

    def oracle(self) -> str:
        return "go"

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0), ("stop", 1.0)]

    def vocabulary(self) -> list[str]:
        self._move("vocabulary")
        return ["go", "stop", "on"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self._move("reset")
        return "on", {"state_key": "on"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self._move("step")
        right = action == "go"
        info = {"action_valid": True, "state_key": "on", "success": right}
        info["extras"] = {"threads": os.environ["OMP_NUM_THREADS"]}
        return "on", float(right), True, False, info


gymnasium.register("moves/Moves-v0", entry_point=f"{__name__}:Moves")
