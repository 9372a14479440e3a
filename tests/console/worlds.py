"""A user's environment that works for two steps, and then fails as its options demand."""

from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

BROKEN = "turnwise.tests.console.worlds:broken/World-v0"


class BrokenWorld(TurnEnv):
    """``fault``: ``reset``, ``raise``, ``nan``, ``large``, ``report``, or ``none`` of these; ``odd`` fails to reset at
    odd seeds; ``unweighted`` lists its valid actions without weights.
    """

    def __init__(self, fault: str = "none") -> None:
        self.action_space = self.observation_space = FreeText(words=("go", "on"))
        self.fault = fault

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        if self.fault == "reset" or (self.fault == "odd" and seed is not None and seed % 2):
            raise LookupError("no page at all")
        self.turn = 0
        return "odd" if seed is not None and seed % 2 else "even", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self.turn += 1
        if self.turn < 3:
            return "on", 0.0, False, False, {}
        if self.fault == "raise":
            raise LookupError("\x1b[31mthe page is gone")
        if self.fault == "large":
            return "x" * 50_000_000, 0.0, False, False, {}
        if self.fault == "report":
            return "on", 0.0, False, False, {"env_error": "browser crashed"}
        return "on", float("nan") if self.fault == "nan" else 1.0, True, False, {"success": True}

    def valid_actions(self) -> list[tuple[str, float]]:
        return ["go"] if self.fault == "unweighted" else [("go", 1.0)]  # type: ignore[list-item]


gymnasium.register("broken/World-v0", entry_point=BrokenWorld)  # type: ignore[arg-type]
