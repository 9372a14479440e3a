"""A puzzle that is played in words, and the environment that plays it: splits, levels, turns, rewards, snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from zlib import crc32

from ...base import Info, Obs, TurnEnv, seed_and_split
from ...computer.draws import NoInstance, SeededDraws
from ...spaces import FreeText
from .reading import plain

LEVELS = (1, 2, 3)
HELD_OUT_EVERY = 5
"""One instance of this many belongs to the test split."""
SUCCESS_REWARD = 1.0
INVALID_REWARD = -0.1
WRONG_REWARD = -0.1
MAX_OBSERVATION_CHARS = 800


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one action."""

    text: str
    parts: Mapping[str, float] = field(default_factory=dict)
    """Addends of the reward; success and the penalty of an invalid action are added by the environment."""
    valid: bool = True
    verdict: bool | None = None
    """Whether the episode succeeded; None while it goes on."""


class Puzzle(ABC):
    """One instance with its state. It is immutable: a turn returns the next one."""

    @classmethod
    @abstractmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw an instance.

        Raises:
            NoInstance: the draw leads to no task; another draw may.
        """

    @property
    @abstractmethod
    def key(self) -> str:
        """Name the instance: instances of the same name are on the same side of the split."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Name the state of the episode."""

    @abstractmethod
    def opening(self) -> str:
        """Return the first observation."""

    @abstractmethod
    def turn(self, text: str) -> tuple[Self, Reply]:
        """Apply an action; its text is ``plain``."""

    @abstractmethod
    def oracle(self) -> str:
        """Return the next right action."""

    @abstractmethod
    def actions(self) -> Sequence[str]:
        """Return actions that apply now."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an episode."""

    puzzle: Puzzle
    turns: int
    over: bool


class LanguageEnv(TurnEnv):
    """The puzzle of a seed. ``level`` is the difficulty, 1 to 3; ``pool_size`` is the number of training tasks, or 0
    for one task per seed.

    Raises:
        ValueError: the level or, at reset, the split is unknown; or ``pool_size`` is negative.
    """

    restorable = True
    thread_bound = False

    name: ClassVar[str]
    puzzle: ClassVar[type[Puzzle]]
    turns: ClassVar[tuple[int, int, int]]
    """Turns of an episode, per level."""

    def __init__(self, level: int = 1, pool_size: int = 0) -> None:
        if level not in LEVELS:
            raise ValueError(f"unknown `level` {level!r} of `{self.name}`; choose from 1, 2, 3")
        if pool_size < 0:
            raise ValueError(f"`pool_size` of `{self.name}` is {pool_size}; choose 0 or more")
        self.level = level
        self.pool_size = pool_size
        self.action_space = FreeText()
        self.observation_space = FreeText(MAX_OBSERVATION_CHARS)
        self._episode: Snapshot | None = None

    @property
    def max_turns(self) -> int:
        """Return the number of turns after which an episode ends."""
        return self.turns[self.level - 1]

    @property
    def episode(self) -> Snapshot:
        """Return the running episode.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._episode is None:
            raise RuntimeError(f"`{self.name}` was stepped before its first reset; call `reset` first")
        return self._episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``).

        Raises:
            ValueError: the split is unknown.
        """
        super().reset(seed=seed)
        number, split = seed_and_split(self, seed, options)
        self._episode = Snapshot(self._draw(number, split), 0, False)
        return self.episode.puzzle.opening(), self._info(Reply(""), {})

    def _draw(self, seed: int, split: str) -> Puzzle:
        draws = SeededDraws(f"{self.name} {self.level} {split} {seed}")
        while True:
            try:
                puzzle = self.puzzle.draw(draws, self.level)
            except NoInstance:
                continue
            if (crc32(puzzle.key.encode()) % HELD_OUT_EVERY == 0) == (split == "test"):
                return puzzle

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply the text of one action; after the end every action gives "The game is over." and reward 0."""
        before = self.episode
        if before.over:
            return "The game is over.", 0.0, True, False, self._info(Reply("", valid=False), {})
        puzzle, reply = before.puzzle.turn(plain(action))
        turns = before.turns + 1
        over = reply.verdict is not None or turns >= self.max_turns
        self._episode = Snapshot(puzzle, turns, over)
        parts = dict(reply.parts)
        if reply.verdict:
            parts["success"] = SUCCESS_REWARD
        if not reply.valid:
            parts["invalid"] = INVALID_REWARD
        return reply.text, sum(parts.values()), over, False, self._info(reply, parts)

    def _info(self, reply: Reply, parts: dict[str, float]) -> Info:
        episode = self.episode
        return {
            "action_valid": reply.valid,
            "state_key": f"{episode.puzzle.state}|{episode.turns}",
            "env_error": None,
            "success": bool(reply.verdict),
            "reward_parts": parts,
        }

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the seeds 0 to ``pool_size`` - 1 for training; None without a limit, and for the split ``test``."""
        return range(self.pool_size) if self.pool_size and split == "train" else None

    def oracle(self) -> str:
        """Return the next right action."""
        return self.episode.puzzle.oracle()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return actions that apply now, with equal weights."""
        return [(action, 1.0) for action in self.episode.puzzle.actions()]

    def snapshot(self) -> Snapshot:
        """Return the puzzle and the turns taken."""
        return self.episode

    def restore(self, snapshot: Snapshot) -> None:
        """Continue the episode of a snapshot."""
        self._episode = snapshot
