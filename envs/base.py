"""The base of every environment: a ``gymnasium.Env`` whose action is the text the agent wrote.

An observation is a string, an image (``uint8`` array of height x width x 3), or ``{"text": str, "image": array}``.
Only ``reset`` and ``step`` must be written; the other methods have defaults and say what each enables. What holds
for all:

* ``reset(seed=, options={"split": "train" | "test"})`` draws the instance; the two splits share none.
* ``info`` of ``reset`` and ``step`` may carry ``action_valid`` (the action could be parsed and applied),
  ``state_key`` (a name of the state now reached, the one the next action is taken in), ``env_error`` (the world
  failed: a text), ``success`` (at the end: the environment's own verdict), ``reward_parts`` (the named addends of
  the reward), ``extras`` (JSON values for the record, added up over the episode: which image a sandbox was made of).
* Bad text from an agent is an outcome (an observation), never an exception.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

Image: TypeAlias = NDArray[np.uint8]
Obs: TypeAlias = str | Image | dict[str, Any]
Info: TypeAlias = dict[str, Any]


class TurnEnv(gymnasium.Env[Obs, str]):
    """A multi-turn world for a language-model agent."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it an instance variable
    deterministic: bool = True
    """Whether the same seed, options and actions give the same observations and rewards."""
    sandboxed: bool = False
    """Whether it leases sandboxes: a run then keeps a host for them on every node (``envs.sandboxes``)."""
    keeps_sandbox: bool = False
    """Whether its sandbox serves one episode after another: it is then left with it between them, and after an episode
    that was cut off.
    """

    def instructions(self) -> str:
        """The system prompt; empty for none."""
        return ""

    def oracle(self) -> str:
        """The next right action, for checks and upper bounds; never used in training.

        Raises:
            NotImplementedError: the environment knows none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no oracle")

    def valid_actions(self) -> list[tuple[str, float]]:
        """Actions that apply now, each with its weight: the random policy, and the format warm-up.

        Raises:
            NotImplementedError: the environment cannot enumerate them.
        """
        raise NotImplementedError(f"{type(self).__name__} does not list its valid actions")

    def vocabulary(self) -> list[str]:
        """Every word of observations and actions, for a word-level tokenizer (``turnwise model new``).

        Raises:
            NotImplementedError: the words are not a closed set.
        """
        raise NotImplementedError(f"{type(self).__name__} has no closed vocabulary")

    def screenshot(self) -> Image | None:
        """How the world looks now, for a person who plays; None if it has no looks, or they are the observation."""
        return None

    def normalize(self, observation: Obs) -> Obs:
        """The observation without what cannot be the same twice (timings, pids); this is what gets hashed.

        A function of the observation alone: replay applies it, in another instance, to what was stored.
        """
        return observation


class Adapted(TurnEnv):
    """Any other Gymnasium environment of text actions, wrappers included, seen as a ``TurnEnv``: what it has of the
    optional methods is used.
    """

    def __init__(self, inner: gymnasium.Env[Any, Any]) -> None:
        self.inner = inner
        self._core = core = inner.unwrapped
        self.spec = inner.spec
        self.action_space = inner.action_space
        self.observation_space = inner.observation_space
        self.sandboxed = bool(getattr(core, "sandboxed", False))
        self.keeps_sandbox = bool(getattr(core, "keeps_sandbox", False))
        self.deterministic = bool(getattr(core, "deterministic", not getattr(inner.spec, "nondeterministic", False)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """The inner environment's."""
        return self.inner.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """The inner environment's."""
        observation, reward, terminated, truncated, info = self.inner.step(action)
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """The inner environment's."""
        self.inner.close()

    def instructions(self) -> str:
        """The core environment's, if it has any."""
        return str(self._own("instructions")()) if hasattr(self._core, "instructions") else ""

    def oracle(self) -> str:
        """The core environment's."""
        return str(self._own("oracle")())

    def valid_actions(self) -> list[tuple[str, float]]:
        """The core environment's."""
        return list(self._own("valid_actions")())

    def vocabulary(self) -> list[str]:
        """The core environment's."""
        return list(self._own("vocabulary")())

    def screenshot(self) -> Image | None:
        """The core environment's, if it has any."""
        found: Image | None = self._own("screenshot")() if hasattr(self._core, "screenshot") else None
        return found

    def normalize(self, observation: Obs) -> Obs:
        """The core environment's, or the observation as it is."""
        own: Obs = self._own("normalize")(observation) if hasattr(self._core, "normalize") else observation
        return own

    def _own(self, method: str) -> Callable[..., Any]:
        """A method of the core environment, whatever its class: having it is enough.

        Raises:
            NotImplementedError: it has none of that name.
        """
        found = getattr(self._core, method, None)
        if not callable(found):
            raise NotImplementedError(f"{type(self._core).__name__} has no {method}()")
        return found  # type: ignore[no-any-return]
