"""A puzzle that is played in words, and the environment that plays it: splits, levels, turns, rewards, snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ...draws import SeededDraws, draw_for, held_out
from ...episode import EpisodeEnv, Turn
from ...options import not_negative, one_of
from ...spaces import FreeText
from .reading import plain

LEVELS = (1, 2, 3)
SUCCESS_REWARD = 1.0
INVALID_REWARD = -0.1
WRONG_REWARD = -0.1
MAX_OBSERVATION_CHARS = 800


class Puzzle(ABC):
    """One instance with its state. It is immutable: a turn returns the next one."""

    @classmethod
    @abstractmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw an instance. Raises NoInstance: the draw leads to no task; another draw may."""

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
    def turn(self, text: str) -> tuple[Self, Turn]:
        """Apply an action, whose text is ``plain``.

        ``LanguageEnv`` adds the rewards of a success and of an invalid action.
        """

    @abstractmethod
    def oracle(self) -> str:
        """Return the next right action."""

    @abstractmethod
    def actions(self) -> Sequence[str]:
        """Return actions that apply now."""


@dataclass(frozen=True, slots=True)
class Game:
    """The state of an episode."""

    puzzle: Puzzle
    turns: int = 0


class LanguageEnv(EpisodeEnv[Game]):
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
    rules: ClassVar[str]
    """The instructions, with an example and ``{turns}``."""

    def __init__(self, level: int = 1, pool_size: int = 0) -> None:
        self.level = one_of("level", level, LEVELS, self.name)
        self.pool_size = not_negative("pool_size", pool_size, self.name)
        self.action_space = FreeText()
        self.observation_space = FreeText(MAX_OBSERVATION_CHARS)

    @property
    def max_turns(self) -> int:
        """Return the number of turns after which an episode ends."""
        return self.turns[self.level - 1]

    def instructions(self) -> str:
        """Return the rules and an example."""
        return self.rules.format(turns=self.max_turns)

    @property
    def state_key(self) -> str:
        """Name the state of the puzzle, and the turns taken."""
        return f"{self.episode.puzzle.state}|{self.episode.turns}"

    def _begin(self, seed: int, split: str) -> Turn:
        draws = SeededDraws(f"{self.name} {self.level} {split} {seed}")

        def draw() -> tuple[Puzzle, bool]:
            puzzle = self.puzzle.draw(draws, self.level)
            return puzzle, held_out(puzzle.key)

        self.episode = Game(draw_for(split, draw))
        return Turn(self.episode.puzzle.opening())

    def _play(self, action: str) -> Turn:
        puzzle, reply = self.episode.puzzle.turn(plain(action))
        self.episode = Game(puzzle, self.episode.turns + 1)
        parts = dict(reply.parts)
        if reply.success:
            parts["success"] = SUCCESS_REWARD
        if not reply.valid:
            parts["invalid"] = INVALID_REWARD
        return replace(reply, parts=parts, over=reply.over or self.episode.turns >= self.max_turns)

    def _ended(self) -> str:
        return "The game is over."

    def oracle(self) -> str:
        """Return the next right action."""
        return self.episode.puzzle.oracle()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return actions that apply now, with equal weights."""
        return [(action, 1.0) for action in self.episode.puzzle.actions()]
