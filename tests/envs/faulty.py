"""An environment that fails as its options demand, to inject faults. ``FAULTY`` is its id in any process."""

import threading
from typing import Any

import gymnasium
import numpy as np
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText
from turnwise.sandbox import SandboxBroken, SandboxLost

FAULTY = "turnwise.tests.envs.faulty:faults/Faulty-v0"
HANG = threading.Event()
"""The event on which a hanging environment waits; only the end of a test sets it."""

MADE: "list[FaultyEnv]" = []
"""All instances whose constructor has returned."""


class FaultyEnv(TurnEnv):
    """The action ``fault`` causes ``fault``. With ``where`` (make, instructions, check_trainable, reset or close) the
    fault happens in that call instead."""

    def __init__(self, fault: str = "", where: str = "step", charges_steps: bool = False) -> None:
        self.action_space = FreeText(words=("go", "fault"))
        self.observation_space = FreeText(100, words=("on",))
        self.fault, self.where, self.charges_steps = fault, where, charges_steps
        self.thread = threading.get_ident()
        self.closed = False
        if where == "make":
            self._go_wrong()
        MADE.append(self)

    def instructions(self) -> str:
        if self.where == "instructions":
            prompts: dict[str, Any] = {"type": 3, "large": "x" * 50_000_000}
            return prompts[self.fault] if self.fault in prompts else self._go_wrong()
        return ""

    def check_trainable(self) -> None:
        if self.where == "check_trainable":
            self._go_wrong()

    def _go_wrong(self) -> Any:
        match self.fault:
            case "raise":
                raise LookupError("the page is gone")
            case "exit":
                raise SystemExit(3)
            case "hang":
                HANG.wait()
            case "broken":
                raise SandboxBroken("its memory limit killed its guest agent")
            case "lost":
                raise SandboxLost("something outside the sandbox stopped it")
        return None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        if self.where == "reset":
            self._go_wrong()
            if self.fault == "type":
                return "on"  # type: ignore[return-value]
        return "on", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        assert threading.get_ident() == self.thread
        if action != "fault":
            return "on", 0.0, False, False, {"state_key": "here"}
        self._go_wrong()
        answers: dict[str, Any] = {
            "nan": ("on", float("nan"), False, False, {}),
            "inf": ("on", np.float64("inf"), False, False, {}),
            "huge": ("on", 10**400, False, False, {}),
            "reward": ("on", "1", False, False, {}),
            "flag": ("on", 0.0, None, False, {}),
            "info": ("on", 0.0, False, False, None),
            "arity": ("on", 0.0, False, {}),
            "none": None,
            "observation": (3, 0.0, False, False, {}),
            "keys": ({"text": "on"}, 0.0, False, False, {}),
            "image": (np.zeros((2, 2), np.uint8), 0.0, False, False, {}),
            "large": ("x" * 50_000_000, 0.0, False, False, {}),
            "reported": ("on", 0.0, False, False, {"env_error": "browser crashed"}),
            "long report": ("on", 0.0, False, False, {"env_error": "y" * 1_000_000}),
            "long observation key": ({"z" * 1_000_000: "on"}, 0.0, False, False, {}),
            "valid": ("on", 0.0, False, False, {"action_valid": "yes"}),
            "parts": ("on", 0.0, False, False, {"reward_parts": {"goal": float("nan")}}),
            "success": ("on", 0.0, True, False, {"success": 1}),
            "key": ("on", 0.0, False, False, {"state_key": 3}),
            "extras": ("on", 0.0, False, False, {"extras": {"when": object()}}),
            "reserved": ("on", 0.0, False, False, {"extras": {"image_sizes": 3}}),
            "long key": ("on", 0.0, False, False, {"state_key": "x" * 20_000}),
            "long part": ("on", 0.0, False, False, {"reward_parts": {"x" * 20_000: float("nan")}}),
            "many parts": ("on", 0.0, False, False, {"reward_parts": dict.fromkeys(range(10_000), 0.0)}),
            "place": ("on", 0.0, False, False, {"targets": [[1, 2, 3]]}),
            "places": ("on", 0.0, False, False, {"targets": [[1, 2]] * 33}),
            "many": ("on", 0.0, False, False, {"extras": {"log": "x" * 20_000}}),
        }
        answer: tuple[Obs, float, bool, bool, Info] = answers[self.fault]
        return answer

    def close(self) -> None:
        self.closed = True
        if self.where == "close":
            self._go_wrong()


gymnasium.register("faults/Faulty-v0", entry_point=FaultyEnv)  # type: ignore[arg-type]
