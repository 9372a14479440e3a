"""The life of an episode, written once: a reset draws an instance, a step takes a turn, and an end stays an end."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..records import SPLITS
from .base import Info, Obs, TurnEnv

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer of an environment to a reset or to an action."""

    observation: Obs
    parts: Mapping[str, float] = field(default_factory=dict)
    """Addends of the reward."""
    valid: bool = True
    """Whether the action could be parsed and applied."""
    over: bool = False
    success: bool | None = False
    info: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of ``info``, such as ``extras``."""


class EpisodeEnv(TurnEnv, ABC, Generic[T]):
    """An environment whose reset draws the episode of a seed and a split, and whose step takes a turn of the episode.

    ``episode`` is the state of the running episode. If it is an immutable value and the whole state, a subclass only
    declares ``restorable``.

    * A step before the first reset raises ``RuntimeError``.
    * After the end of an episode, and after a step that raised, every action gives the observation "ended" and
      reward 0.
    """

    pool_size = 0
    """Number of tasks per split; 0 for one task per seed."""
    _episode: T | None = None
    _over: bool | None = None
    """None before the first reset."""

    @abstractmethod
    def _begin(self, seed: int, split: str) -> Turn:
        """Draw the instance of a seed, and return its first observation."""

    @abstractmethod
    def _play(self, action: str) -> Turn:
        """Apply an action of the running episode."""

    @property
    @abstractmethod
    def state_key(self) -> str:
        """Return the name of the state in which the next action is taken."""

    @property
    def episode(self) -> T:
        """Return the running episode. Raises RuntimeError: before the first reset."""
        if self._episode is None:
            raise RuntimeError(f"`{_name(self)}` has no episode before its first reset; call `reset` first")
        return self._episode

    @episode.setter
    def episode(self, episode: T) -> None:
        self._episode = episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``); without a seed, from the environment's draws.

        Raises:
            ValueError: the split is unknown.
        """
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of `{_name(self)}`; choose from {', '.join(SPLITS)}")
        self._over = True
        turn = self._begin(self._any_seed(split) if seed is None else seed, split)
        self._over = False
        return turn.observation, self._info(turn)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Take one turn with the text of an action."""
        if self._over is None:
            raise RuntimeError(f"`{_name(self)}` was stepped before its first reset; call `reset` first")
        over, self._over = self._over, True
        turn = Turn(self._ended(), valid=False, over=True) if over else self._play(action)
        self._over = turn.over
        return turn.observation, float(sum(turn.parts.values())), turn.over, False, self._info(turn)

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the seeds 0 to ``pool_size`` - 1 for training; None without a limit, and for the split ``test``."""
        return range(self.pool_size) if self.pool_size and split == "train" else None

    def snapshot(self) -> Any:
        """Return the episode, and whether it is over."""
        return (self.episode, self._over) if self.restorable else super().snapshot()

    def restore(self, snapshot: Any) -> None:
        """Continue the episode of a snapshot."""
        if not self.restorable:
            super().restore(snapshot)
        self._episode, self._over = snapshot

    def _any_seed(self, split: str) -> int:
        """Draw the seed of a task, for a reset without one."""
        return int(self.np_random.integers(2**31))

    def _ended(self) -> Obs:
        """Return the observation of a step after the end."""
        return "ended"

    def _info(self, turn: Turn) -> Info:
        return {
            "action_valid": turn.valid,
            "state_key": self.state_key,
            "env_error": None,
            "success": turn.success,
            "reward_parts": dict(turn.parts),
            **turn.info,
        }


def _name(env: TurnEnv) -> str:
    return env.spec.id if env.spec is not None else type(env).__name__
