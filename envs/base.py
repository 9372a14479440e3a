"""The base of every environment: a ``gymnasium.Env`` whose action is the text the agent wrote.

An observation is a string, an image, or ``{"text": str, "image": image}``. An image is a ``uint8`` array of height x
width x 3, or a ``Png``: a file that is stored as it is.
Only ``reset`` and ``step`` must be written; the other methods have defaults, and each docstring states what the method
enables. The contract:

* ``reset(seed=, options={"split": "train" | "test"})`` draws the instance; the two splits share no instance.
* ``info`` of ``reset`` and ``step`` may hold

  * ``action_valid``: whether the action could be parsed and applied;
  * ``state_key``: a name of the state in which the next action is taken;
  * ``env_error``: a text, if the environment itself failed;
  * ``success``: at the end, the environment's verdict;
  * ``reward_parts``: the named addends of the reward;
  * ``patch``: the action that the environment applied instead of the agent's: the history of the agent's later turns
    shows it in place of its own;
  * ``extras``: JSON values for the record, merged over the episode, such as the image of a sandbox.
* Malformed text from an agent is an outcome (an observation), never an exception.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ..records import SPLITS
from .spaces import Png

Image: TypeAlias = NDArray[np.uint8]
Obs: TypeAlias = str | Image | Png | dict[str, Any]
Info: TypeAlias = dict[str, Any]


class TurnEnv(gymnasium.Env[Obs, str]):
    """The base class of multi-turn environments for a language-model agent."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it an instance variable
    deterministic: bool = True
    """Whether the same seed, options and actions give the same observations and rewards."""
    sandboxed: bool = False
    """Whether it leases sandboxes: a run then keeps a sandbox node actor on every node (``envs.sandboxes``)."""
    sandbox_memory_mib: int = 256
    """Memory limit of the largest sandbox that an episode leases: bounds how many episodes of a run play at once."""
    sandbox_image: str = ""
    """Shipped image whose programs an episode runs, such as ``desktop``: a run refuses a backend that lacks it."""
    keeps_sandbox: bool = False
    """Whether the environment keeps its sandbox between episodes, truncated ones included, instead of releasing it."""
    restorable: bool = False
    """Whether ``snapshot`` and ``restore`` work: a rollout controller may then branch and suspend an
    episode."""

    thread_bound: bool = True
    """Whether its methods must run in the thread that made it, as a browser's must. If not, calls that take
    microseconds run in one thread for many environments, which costs a fraction of a thread per environment."""

    deadline: float = math.inf
    """When the call that runs times out, on the monotonic clock; the runner sets it before ``reset`` and ``step``."""

    def instructions(self) -> str:
        """Return the system prompt; empty for none."""
        return ""

    def oracle(self) -> str:
        """Return the next right action, for checks and upper bounds; training never calls it.

        Raises:
            NotImplementedError: the environment has no oracle.
        """
        raise NotImplementedError(f"{type(self).__name__} has no oracle")

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the actions that apply now, each with its weight, for the random policy and the format warm-up.

        For example ``[("say red", 1.0), ("say blue", 1.0)]``.

        Raises:
            NotImplementedError: the environment cannot enumerate them.
        """
        raise NotImplementedError(f"{type(self).__name__} does not list its valid actions")

    def vocabulary(self) -> list[str]:
        """Return every word of observations and actions, for a word-level tokenizer (``turnwise model new``).

        Raises:
            NotImplementedError: the words are not a closed set.
        """
        raise NotImplementedError(f"{type(self).__name__} has no closed vocabulary")

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the seeds of all tasks of ``split``; None if every seed is a task.

        With a finite set, training draws from these seeds only, and a curriculum may learn about each task. ``reset``
        with one of the seeds and this split draws that task.
        """
        return None

    def check_trainable(self) -> None:
        """Check that a run may train on the rewards; a run calls this before its first episode.

        Raises:
            NotTrainable: an agent can forge the rewards of a task; the message names the task, why, and what to do.
        """
        return

    def screenshot(self) -> Image | Png | None:
        """Return a picture of the current state for a person who plays; None if the observation is the picture."""
        return None

    def snapshot(self) -> Any:
        """Return the state of the running episode as a value that can be pickled and that later steps do not change.

        None if the state cannot be restored now, for example because a process of the agent runs: no episode continues
        from it. Bound a wait by less than 30 s and return None when it expires: a longer call ends the episode.

        Raises:
            NotImplementedError: the environment is not ``restorable``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no snapshots")

    def restore(self, snapshot: Any) -> None:
        """Continue the episode of a snapshot, exactly as the environment that took it would have.

        The snapshot comes from this or another instance with the same options, perhaps of another process, and may be
        restored any number of times. No reset comes first.

        Raises:
            NotImplementedError: the environment is not ``restorable``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no snapshots")

    def normalize(self, observation: Obs) -> Obs:
        """Return the observation without its non-reproducible parts (timings, pids), for hashing.

        It must be a function of the observation alone: replay applies it, in another instance, to the stored one.
        """
        return observation


def seed_and_split(env: TurnEnv, seed: int | None, options: Mapping[str, Any] | None) -> tuple[int, str]:
    """Return the seed and the split of the task that a reset draws; without a seed, a draw of the environment.

    Raises:
        ValueError: the split is unknown.
    """
    split = (options or {}).get("split", "train")
    if split not in SPLITS:
        name = env.spec.id if env.spec is not None else type(env).__name__
        raise ValueError(f"unknown split {split!r} of `{name}`; choose from {', '.join(SPLITS)}")
    return int(env.np_random.integers(2**31)) if seed is None else seed, split


class Adapted(TurnEnv):
    """Any other Gymnasium environment with text actions, wrappers included, as a ``TurnEnv``.

    An optional method is forwarded to the unwrapped environment if that has the method.
    """

    def __init__(self, inner: gymnasium.Env[Any, Any]) -> None:
        self.inner = inner
        self._core = core = inner.unwrapped
        self.spec = inner.spec
        self.action_space = inner.action_space
        self.observation_space = inner.observation_space
        self.sandboxed = bool(getattr(core, "sandboxed", False))
        self.keeps_sandbox = bool(getattr(core, "keeps_sandbox", False))
        # A wrapper may hold state of the episode that a snapshot of the environment inside it lacks.
        self.restorable = inner is core and bool(getattr(core, "restorable", False))
        self.thread_bound = bool(getattr(core, "thread_bound", True))
        self.deterministic = bool(getattr(core, "deterministic", not getattr(inner.spec, "nondeterministic", False)))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Reset the inner environment."""
        return self.inner.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Step the inner environment."""
        if isinstance(self._core, TurnEnv):
            self._core.deadline = self.deadline
        observation, reward, terminated, truncated, info = self.inner.step(action)
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Close the inner environment."""
        self.inner.close()

    def instructions(self) -> str:
        """Return the system prompt of the unwrapped environment; empty if it has no ``instructions``."""
        found: str = self._own("instructions")() if hasattr(self._core, "instructions") else ""
        return found

    def oracle(self) -> str:
        """Return the reference action of the unwrapped environment."""
        return str(self._own("oracle")())

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the valid actions of the unwrapped environment."""
        return list(self._own("valid_actions")())

    def vocabulary(self) -> list[str]:
        """Return the vocabulary of the unwrapped environment."""
        return list(self._own("vocabulary")())

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the tasks of the unwrapped environment; None if it has no ``tasks``."""
        found: Sequence[int] | None = self._own("tasks")(split) if hasattr(self._core, "tasks") else None
        return found

    def check_trainable(self) -> None:
        """Check the unwrapped environment, if it has ``check_trainable``."""
        if hasattr(self._core, "check_trainable"):
            self._own("check_trainable")()

    def screenshot(self) -> Image | Png | None:
        """Return the picture of the unwrapped environment; None if it has no ``screenshot``."""
        found: Image | Png | None = self._own("screenshot")() if hasattr(self._core, "screenshot") else None
        return found

    def snapshot(self) -> Any:
        """Return a snapshot of the environment; not if it has wrappers."""
        return self._own("snapshot")() if self.restorable else super().snapshot()

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot of the environment; not if it has wrappers."""
        if not self.restorable:
            super().restore(snapshot)
        self._own("restore")(snapshot)

    def normalize(self, observation: Obs) -> Obs:
        """Return the observation as the unwrapped environment normalizes it; unchanged if it has no ``normalize``."""
        own: Obs = self._own("normalize")(observation) if hasattr(self._core, "normalize") else observation
        return own

    def _own(self, method: str) -> Callable[..., Any]:
        """Return a method of the unwrapped environment, which need not be a ``TurnEnv``.

        Raises:
            NotImplementedError: the environment has no such method.
        """
        found = getattr(self._core, method, None)
        if not callable(found):
            raise NotImplementedError(f"{type(self._core).__name__} has no {method}()")
        return found  # type: ignore[no-any-return]
