"""Wrappers of an environment of text, and registrations of them, for the tests of overrides and of limits."""

from typing import Any

import gymnasium
from gymnasium.envs.registration import WrapperSpec
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

BRACKET = "turnwise.tests.envs.runner.wrapped:wrapped/Bracket-v0"
LIMITED = "turnwise.tests.envs.runner.wrapped:wrapped/Limited-v0"
LIMITED_PLAIN = "turnwise.tests.envs.runner.wrapped:wrapped/LimitedPlain-v0"
LIMITED_REPEAT = "turnwise.tests.envs.runner.wrapped:wrapped/LimitedRepeat-v0"
LIMITED_STATELESS = "turnwise.tests.envs.runner.wrapped:wrapped/LimitedStateless-v0"
UNRENDERED = "turnwise.tests.envs.runner.wrapped:wrapped/Unrendered-v0"
SHOUTING = "turnwise.tests.envs.runner.wrapped:wrapped/Shouting-v0"
TEN = 10


class Count(TurnEnv):
    """Ends with success after ten turns of ``go``; has every optional method."""

    restorable = True

    def __init__(self) -> None:
        self.action_space = FreeText(words=("go", "stop"))
        self.observation_space = FreeText(words=("turn", *map(str, range(TEN + 1))))
        self.turns = 0
        self.trainable_checked = 0

    def instructions(self) -> str:
        return "inner"

    def oracle(self) -> str:
        return "go"

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0), ("stop", 1.0)]

    def vocabulary(self) -> list[str]:
        return ["go", "stop", "turn", *map(str, range(TEN + 1))]

    def tasks(self, split: str) -> list[int] | None:
        return [1, 2]

    def check_trainable(self) -> None:
        self.trainable_checked += 1

    def screenshot(self) -> None:
        return None

    def normalize(self, observation: Obs) -> Obs:
        return "inner " + str(observation)

    def snapshot(self) -> int:
        return self.turns

    def restore(self, snapshot: int) -> None:
        self.turns = snapshot

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self.turns = 0
        return "turn 0", {"state_key": "0"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self.turns += 1
        right = action == "go"
        info = {"action_valid": right or action == "stop", "state_key": str(self.turns)}
        ended = self.turns == TEN
        return f"turn {self.turns}", float(right), ended, False, info | ({"success": right} if ended else {})


class Plain(gymnasium.Wrapper[Obs, str, Obs, str]):
    """An environment that is no ``TurnEnv``, seen from outside: it forwards what it lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


class Overrides(gymnasium.Wrapper[Obs, str, Obs, str]):
    """Overrides each optional method and attribute."""

    sandboxed = True
    keeps_sandbox = True
    thread_bound = False
    deterministic = False
    restorable = True

    def instructions(self) -> str:
        return "outer"

    def oracle(self) -> str:
        return "stop"

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("stop", 1.0)]

    def vocabulary(self) -> list[str]:
        return ["outer"]

    def tasks(self, split: str) -> list[int]:
        return [7]

    def check_trainable(self) -> None:
        raise LookupError("outer")

    def screenshot(self) -> Any:
        return "outer"

    def normalize(self, observation: Obs) -> Obs:
        return "outer " + str(observation)

    def snapshot(self) -> str:
        return "outer"

    def restore(self, snapshot: str) -> None:
        self.restored = snapshot


class Shout(gymnasium.ActionWrapper[Obs, str, str]):
    """The agent writes capitals; lacks the methods about actions."""

    def action(self, action: str) -> str:
        return action.lower() if action.isupper() else f"{action}?"


class ShoutInStep(gymnasium.Wrapper[Obs, str, Obs, str]):
    """As ``Shout``, without a declaration of it."""

    def step(self, action: str) -> tuple[Obs, Any, bool, bool, Info]:
        return self.env.step(action.lower() if action.isupper() else f"{action}?")


class Bracket(gymnasium.ObservationWrapper[Obs, str, Obs]):
    """Shows observations in brackets; lacks the methods about observations."""

    def observation(self, observation: Obs) -> Obs:
        return "[ " + str(observation) + " ]"


class Repeat(gymnasium.Wrapper[Obs, str, Obs, str]):
    """Takes each action twice."""

    def step(self, action: str) -> tuple[Obs, Any, bool, bool, Info]:
        first = self.env.step(action)
        return first if first[2] or first[3] else self.env.step(action)


class Stateless(gymnasium.ActionWrapper[Obs, str, str]):
    """The agent writes capitals; a snapshot of the environment inside it is complete."""

    restorable = True

    def action(self, action: str) -> str:
        return action.lower()

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("GO", 1.0), ("STOP", 1.0)]


class Saved(gymnasium.ObservationWrapper[Obs, str, Obs]):
    """Numbers the observations, and keeps the number in its own snapshots."""

    restorable = True
    seen = 0

    def observation(self, observation: Obs) -> Obs:
        self.seen += 1
        return f"{self.seen}: {observation!s}"

    def snapshot(self) -> Any:
        return self.seen, self.env.unwrapped.snapshot()  # type: ignore[attr-defined]

    def restore(self, snapshot: Any) -> None:
        self.seen, inner = snapshot
        self.env.unwrapped.restore(inner)  # type: ignore[attr-defined]


def _made(**options: Any) -> gymnasium.Env[Obs, str]:
    return ShoutInStep(Count())


def _bracket(**options: Any) -> gymnasium.Env[Obs, str]:
    return Bracket(Count())


def _plain(**options: Any) -> gymnasium.Env[Obs, str]:
    return gymnasium.wrappers.OrderEnforcing(Count())


class Unrendered(Count):
    """Needs a library that is not installed to show itself, as the environments of Gymnasium do."""

    metadata = {"render_modes": ["human"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's type

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> None:
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed")


REPEAT = WrapperSpec("Repeat", f"{__name__}:Repeat", {})
gymnasium.register("wrapped/Limited-v0", entry_point=f"{__name__}:Count", max_episode_steps=4)
gymnasium.register("wrapped/LimitedPlain-v0", entry_point=f"{__name__}:_plain", max_episode_steps=4, order_enforce=True)
gymnasium.register(
    "wrapped/LimitedRepeat-v0",
    entry_point=f"{__name__}:Count",
    max_episode_steps=4,
    additional_wrappers=(REPEAT,),
)
gymnasium.register(
    "wrapped/LimitedStateless-v0",
    entry_point=f"{__name__}:Count",
    max_episode_steps=4,
    additional_wrappers=(
        WrapperSpec("Stateless", f"{__name__}:Stateless", {}),
        WrapperSpec("Saved", f"{__name__}:Saved", {}),
    ),
)
gymnasium.register("wrapped/Unrendered-v0", entry_point=f"{__name__}:Unrendered")
gymnasium.register("wrapped/Shouting-v0", entry_point=f"{__name__}:_made")
gymnasium.register("wrapped/Bracket-v0", entry_point=f"{__name__}:_bracket")
