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
  * ``targets``: the places of the screen that the action points at, each ``[x, y]`` or ``[x, y, width, height]`` in
    pixels of the screenshot, for the viewer;
  * ``extras``: JSON values for the record, merged over the episode, such as the image of a sandbox;
    the keys of ``runner.step_result.RUNNER_EXTRAS`` are turnwise's own.
* ``step`` receives the answer without the thoughts (``runner.thoughts``).
* Malformed text from an agent is an outcome (an observation), never an exception.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from inspect import get_annotations
from types import FunctionType
from typing import Any, NoReturn, TypeAlias, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from ..errors import shown
from .errors import EnvironmentBroken
from .spaces import FreeText, Png

T = TypeVar("T")
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
    runner: str = "gym"
    """The runner that plays its episodes (``agents.rollout.runners``); ``gym`` calls ``step`` with each action."""

    thread_bound: bool = True
    """Whether its methods must run in the thread that made it, as a browser's must. If not, calls that take
    microseconds run in one thread for many environments, which costs a fraction of a thread per environment."""

    charges_steps: bool = False
    """Whether a step that exceeds its timeout is charged to the policy (``timeout``), because the step runs what the
    agent wrote and sets no limit. If not, it is a failure of the environment (``env_error``), which is played again."""

    deadline: float = math.inf
    """When the call that runs times out, on the monotonic clock; the runner sets it before ``reset`` and ``step``."""
    scoring_timeout_s: float = math.inf
    """The timeout of scoring (``scoring``), in seconds; the runner sets it before ``step``."""
    scoring_s: float = 0.0
    """Seconds that the running step may take beyond its timeout because it scores, or those that its scoring took."""

    @contextmanager
    def scoring(self, limit_s: float | None = None) -> Iterator[None]:
        """Score the episode inside, in ``step``: with a judge or a service, whatever is not the agent's action.

        The time inside does not count against the timeout of the step, and has ``limit_s``, or without one
        ``scoring_timeout_s`` (``rollout.scoring_timeout_s``). A timeout inside is never charged to the policy.
        """
        before, began = self.scoring_s, time.monotonic()
        self.scoring_s = before + (self.scoring_timeout_s if limit_s is None else limit_s)
        try:
            yield
        finally:
            self.scoring_s = before + time.monotonic() - began

    def __init_subclass__(cls, **settings: Any) -> None:
        """Refuse a method that would hide an attribute of a base class. Raises TypeError."""
        super().__init_subclass__(**settings)
        for base in cls.__mro__[1:]:
            for name in get_annotations(base):
                if isinstance(cls.__dict__.get(name), FunctionType):
                    raise TypeError(
                        f"`{cls.__name__}.{name}` is a method, but `{name}` is an attribute of `{base.__name__}`: "
                        "rename the method"
                    )

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
        """Return a picture of the current state for a person; None if the observation is the picture.

        A run keeps it of each episode's end (``rollout.screenshots``).
        """
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


ABOUT_ACTIONS = frozenset({"oracle", "valid_actions", "vocabulary"})
ABOUT_OBSERVATIONS = frozenset({"normalize", "vocabulary"})


WITH_KNOWN_STATE = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers of Gymnasium whose whole state of an episode ``Adapted`` saves and restores."""


class Adapted(TurnEnv):
    """Any Gymnasium environment with text actions, wrappers included, as a ``TurnEnv`` within its limit on turns.

    Of each optional method and attribute, the outermost override wins; one that ``__getattr__`` forwards is none. A
    method about actions or observations is not taken from inside a wrapper that changes them, because its words would
    be those of the environment inside.
    """

    def __init__(self, inner: gymnasium.Env[Any, Any], max_turns: int | None = None) -> None:
        """``max_turns`` truncates an episode; None: no limit."""
        self.inner = inner
        self.core: gymnasium.Env[Any, Any] = inner.unwrapped
        self.spec = inner.spec
        self.action_space = _space(inner, "action_space")
        self.observation_space = _space(inner, "observation_space")
        self.sandboxed = bool(self._get("sandboxed", TurnEnv.sandboxed))
        self.keeps_sandbox = bool(self._get("keeps_sandbox", TurnEnv.keeps_sandbox))
        self.runner = self._get("runner", TurnEnv.runner)
        if not isinstance(self.runner, str):
            raise EnvironmentBroken(
                f"`runner` of {type(self.core).__name__} is a {type(self.runner).__name__}; it names the runner of its "
                "episodes: rename the attribute, or make it the name of docs/environments.md"
            )
        self.restorable = self._restorer() is not None
        self.thread_bound = bool(self._get("thread_bound", TurnEnv.thread_bound))
        self.charges_steps = bool(self._get("charges_steps", TurnEnv.charges_steps))
        nondeterministic = bool(getattr(inner.spec, "nondeterministic", False))
        self.deterministic = bool(self._get("deterministic", not nondeterministic))
        self._max_turns = max_turns
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Reset the inner environment."""
        self._turns = 0
        self._pass_deadline()
        return self.inner.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Step the inner environment, and truncate the episode at the limit."""
        self._pass_deadline()
        answer: Any = self.inner.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            return answer  # the runner names the mistake
        observation, reward, terminated, truncated, info = answer
        if not isinstance(reward, str | bytes):
            with suppress(TypeError, ValueError, OverflowError):  # the runner names a reward that is not a number
                reward = float(reward)
        self._turns += 1
        cut = self._max_turns is not None and self._turns >= self._max_turns
        return observation, reward, terminated, True if cut and terminated is False else truncated, info

    def close(self) -> None:
        """Close the inner environment."""
        self.inner.close()

    def instructions(self) -> str:
        """Return the system prompt; empty without ``instructions``."""
        prompt: str = self._get("instructions", super().instructions)()
        return prompt

    def oracle(self) -> str:
        """Return the reference action."""
        action: str = self._get("oracle", partial(self._lacks, "oracle"))()
        return action

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the valid actions."""
        actions: list[tuple[str, float]] = self._get("valid_actions", partial(self._lacks, "valid_actions"))()
        return actions

    def vocabulary(self) -> list[str]:
        """Return the vocabulary."""
        words: list[str] = self._get("vocabulary", partial(self._lacks, "vocabulary"))()
        return words

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the tasks; None without ``tasks``."""
        seeds: Sequence[int] | None = self._get("tasks", super().tasks)(split)
        return seeds

    def check_trainable(self) -> None:
        """Check that a run may train on the rewards, if there is ``check_trainable``."""
        self._get("check_trainable", super().check_trainable)()

    def screenshot(self) -> Image | Png | None:
        """Return the picture for a person; None without ``screenshot``."""
        picture: Image | Png | None = self._get("screenshot", super().screenshot)()
        return picture

    def snapshot(self) -> Any:
        """Return the turns that each limit has counted, with the snapshot of the environment or of its wrapper."""
        restorer = self._restorer()
        inner = super().snapshot() if restorer is None else restorer.snapshot()  # type: ignore[attr-defined]
        return None if inner is None else (self._turns, [limit._elapsed_steps for limit in self._limits()], inner)

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot of the environment, and the turns that each limit had counted."""
        restorer = self._restorer()
        if restorer is None:
            super().restore(snapshot)
        turns, counted, inner = snapshot
        restorer.restore(inner)  # type: ignore[union-attr]
        self._turns = turns
        for limit, taken in zip(self._limits(), counted, strict=True):
            limit._elapsed_steps = taken
        for one in self._chain():
            if isinstance(one, OrderEnforcing):
                one._has_reset = True
            if isinstance(one, PassiveEnvChecker):
                one.checked_step = one.checked_data_reuse = True  # there is no reset to compare the next turn with

    def normalize(self, observation: Obs) -> Obs:
        """Return the observation as ``normalize`` does; unchanged without it."""
        normalized: Obs = self._get("normalize", super().normalize)(observation)
        return normalized

    def provider(self, name: str) -> gymnasium.Env[Any, Any] | None:
        """Return the environment or wrapper whose ``name`` counts; None if none has one.

        Raises:
            NotImplementedError: a wrapper changes actions or observations, and lacks the method about them.
        """
        for one in self._chain():
            if one is self.core:
                return one if _defines(one, name) else None
            if _defines(one, name):
                return one
            if (name in ABOUT_ACTIONS and _changes(one, "action_space", gymnasium.ActionWrapper)) or (
                name in ABOUT_OBSERVATIONS and _changes(one, "observation_space", gymnasium.ObservationWrapper)
            ):
                if name == "normalize" or not overrides(self.core, name):
                    return None
                raise NotImplementedError(
                    f"the wrapper {type(one).__name__} changes actions or observations and has no {name}(): define it "
                    f"there; that of {type(self.core).__name__} has the words inside the wrapper"
                )
        return None

    def _get(self, name: str, default: Any) -> Any:
        found = self.provider(name)
        if found is None:
            return default
        value = getattr(found, name)
        if callable(default) and not callable(value):
            raise EnvironmentBroken(
                f"`{name}` of {type(found).__name__} is a {type(value).__name__}; turnwise calls the method of this "
                "name: rename the attribute, or make it the method of docs/environments.md"
            )
        return value

    def _restorer(self) -> gymnasium.Env[Any, Any] | None:
        """Return the outermost environment or wrapper with snapshots; None if a snapshot would lack state outside it.

        A wrapper may hold state of the episode: one that has no snapshots either declares ``restorable``, as it holds
        none, or is a class of Gymnasium whose state is known.
        """
        for one in self._chain():
            if one is self.core:
                return one if _defines(one, "restorable") and bool(one.restorable) else None  # type: ignore[attr-defined]
            declared = _defines(one, "restorable") and bool(one.restorable)  # type: ignore[attr-defined]
            if _defines(one, "snapshot") or _defines(one, "restore"):
                return one if declared else None
            if not declared and type(one) not in WITH_KNOWN_STATE:
                return None
        return None

    def _lacks(self, method: str) -> NoReturn:
        raise NotImplementedError(f"{type(self.core).__name__} has no {method}()")

    def _chain(self) -> Iterator[gymnasium.Env[Any, Any]]:
        """Yield the wrappers from the outermost inwards, then the environment itself."""
        one = self.inner
        while isinstance(one, gymnasium.Wrapper):
            yield one
            one = one.env
        yield one

    def _limits(self) -> list[Any]:
        """Return the wrappers that count turns."""
        return [one for one in self._chain() if isinstance(one, TimeLimit)]

    def _pass_deadline(self) -> None:
        if isinstance(self.core, TurnEnv):
            self.core.deadline, self.core.scoring_timeout_s = self.deadline, self.scoring_timeout_s


def checked_oracle(env: TurnEnv) -> str:
    """Return ``env.oracle()``. Raises EnvironmentBroken: it is not a text."""
    return _returned(env, "oracle", "an action is a text", lambda action: action if isinstance(action, str) else None)


def checked_actions(env: TurnEnv) -> list[tuple[str, float]]:
    """Return ``env.valid_actions()``. Raises EnvironmentBroken: it has no action, or another item than a pair of an
    action and its weight, a number not below 0."""

    def pairs(actions: Any) -> list[tuple[str, float]] | None:
        found = [(text, float(weight)) for text, weight in actions]
        fits = all(isinstance(text, str) and 0 <= weight < math.inf for text, weight in found)
        return found if fits and any(weight for _, weight in found) else None

    needed = 'it must return (action, weight) pairs, for example `[("say red", 1.0)]`'
    return _returned(env, "valid_actions", needed, pairs)


def checked_vocabulary(env: TurnEnv) -> list[str]:
    """Return ``env.vocabulary()``. Raises EnvironmentBroken: it is not a list of texts."""

    def texts(words: Any) -> list[str] | None:
        found = [] if isinstance(words, str) else list(words)
        return found if found and all(isinstance(word, str) for word in found) else None

    return _returned(env, "vocabulary", "it must return a list of texts", texts)


def _returned(env: TurnEnv, method: str, needed: str, check: Callable[[Any], T | None]) -> T:
    """Return what a method of an environment returned, as ``check`` does; None and an error of ``check`` refuse it."""
    value, found = getattr(env, method)(), None
    with suppress(TypeError, ValueError, OverflowError):
        found = check(value)
    if found is None:
        name = type(env.core if isinstance(env, Adapted) else env).__name__
        kind = "" if value is None else f"{type(value).__name__} "
        raise EnvironmentBroken(f"{method}() of {name} returned {kind}{shown(value)}; {needed}")
    return found


def provides(env: TurnEnv, name: str) -> bool:
    """Return whether an environment defines an optional method, such as ``oracle``."""
    try:
        found = env.provider(name) if isinstance(env, Adapted) else env
    except NotImplementedError:
        return False
    return found is not None and overrides(found, name)


def overrides(env: gymnasium.Env[Any, Any], name: str) -> bool:
    """Return whether an environment has a method that is not the default of ``TurnEnv``."""
    return _defines(env, name) and getattr(type(env), name, None) is not getattr(TurnEnv, name)


def _defines(env: gymnasium.Env[Any, Any], name: str) -> bool:
    """Return whether an environment or wrapper has an attribute itself, and does not forward it by ``__getattr__``."""
    return name in vars(env) or any(name in vars(each) for each in type(env).__mro__)


def _space(env: gymnasium.Env[Any, Any], name: str) -> Space[Any]:
    """Return a space of an environment; that of any text if it declares none."""
    try:
        space: Space[Any] = getattr(env, name)
    except Exception:  # noqa: BLE001 - a `__getattr__` may raise any
        return FreeText()
    return space


def _changes(wrapper: Any, space: str, kind: type) -> bool:
    """Return whether a wrapper is of a kind that changes a space's values, or has another space than the one inside."""
    return isinstance(wrapper, kind) or getattr(wrapper, space, None) is not getattr(wrapper.env, space, None)
