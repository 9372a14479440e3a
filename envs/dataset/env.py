"""The base class of an environment of rows: a prompt per row, answers of the agent, and a rubric that scores the end.

def correct(action, answer):
    return action.strip() == answer

class Capitals(DatasetEnv):
    prompt = "question"
    rubric = {correct: 1.0}

    def load(self, split):
        return f"{split}.jsonl"
"""

import copy
import inspect
import math
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np
from gymnasium.spaces import Space

from ...errors import shown, suggestion
from ...records import UNSCORED
from ..base import Obs
from ..episode import EpisodeEnv, Turn
from ..errors import EnvironmentBroken, EnvironmentFailed, wrap_error
from ..spaces import FreeText
from .coroutines import results_of
from .rows import NUMBERS, Row, Rows, Source, content_hash, folder_of, kept, place, rows_of
from .rubric import Ending, Message, RewardFunction, Rubric, Unscored

T = TypeVar("T")

MAX_OBSERVATION_CHARS = 2**20


@dataclass(frozen=True, slots=True)
class RowEpisode:
    """The state of an episode."""

    split: str
    index: int
    row: Row
    messages: tuple[Message, ...]

    @property
    def where(self) -> str:
        """Return the row as errors name it."""
        return place(self.split, self.index)


class DatasetEnv(EpisodeEnv[RowEpisode]):
    """An episode per row: the seed of a task is a hash of the row and, in the last nine digits, the row's number. A
    number alone is a seed too, to reset by hand.

    A subclass has a method ``load`` and a ``rubric``. By default the first answer ends an episode; override ``respond``
    for several turns. At the end the reward functions are called; the reward is the weighted sum of their values, and
    the addends are ``reward_parts``. The earlier turns have the reward 0.
    """

    prompt: str = "prompt"
    """The column with the first observation."""
    rubric: ClassVar[Mapping[RewardFunction, float]] = MappingProxyType({})
    """The weight of each reward function (``rubric`` describes their parameters). The first one decides success."""
    max_turns: int = 10
    """Turns after which an episode ends, and is scored, although ``respond`` continues it."""
    success_at: float = 1.0
    """The value of the first reward function from which an episode is a success."""

    @cached_property
    def action_space(self) -> Space[str]:  # type: ignore[override]  # it can be set
        """The space of answers, made here so that the ``__init__`` of a subclass need not call this class's."""
        return FreeText()

    @cached_property
    def observation_space(self) -> Space[Obs]:  # type: ignore[override]  # it can be set
        """The space of observations."""
        return FreeText(MAX_OBSERVATION_CHARS)

    @abstractmethod
    def load(self, split: str) -> Source:
        """Return the rows of a split, which are kept for the process.

        A list of dicts, the path of a ``.jsonl`` or ``.parquet`` file (a relative one starts at the folder of this
        class's module), a ``datasets.Dataset``, or anything else with a length whose items are mappings.
        """

    def first_observation(self, row: Row) -> Obs:
        """Return the first observation of a row: its text in the column ``prompt``."""
        text = row.get(self.prompt)
        if not isinstance(text, str):
            lacks = self.prompt not in row
            why = f"has no column `{self.prompt}`" if lacks else f"has a {type(text).__name__} in `{self.prompt}`"
            near = suggestion(self.prompt, list(row)) if lacks else ", not a text"
            raise EnvironmentBroken(
                f"{self.episode.where} {why}{near}: set `prompt` of `{type(self).__name__}` to the column of the "
                "question, or override `first_observation`"
            )
        return text

    def respond(self, action: str, row: Row, conversation: list[Message]) -> Obs | Awaitable[Obs | None] | None:
        """Return the observation after an answer, the last message of ``conversation``; None ends the episode.

        A subclass may define it with ``async def``.
        """
        return None

    def tasks(self, split: str) -> Sequence[int]:
        """Return the seeds of the rows of a split."""
        return list(map(_seed, self.row_hashes(split), count()))

    def row_hashes(self, split: str) -> list[str]:
        """Return a hash per row of a split, for which each process reads all rows once."""
        rows = self._rows(split)
        return self._once(f"hashes of {split}", lambda: [content_hash(rows[number]) for number in range(len(rows))])

    def is_valid(self, action: str) -> bool:
        """Return whether an answer has the form that the rubric expects; ``invalid_action_fraction`` counts the others.

        It is called before ``respond``, and changes neither the episode nor its reward.
        """
        return True

    @property
    def row(self) -> Row:
        """Return the row of the running episode, for ``oracle`` and ``valid_actions``."""
        return self.episode.row

    @property
    def conversation(self) -> list[Message]:
        """Return the messages of the running episode, from the first observation on."""
        return [dict(message) for message in self.episode.messages]

    @property
    def state_key(self) -> str:
        """Name the messages so far."""
        return content_hash([message["content"] for message in self.episode.messages])[:16]

    @cached_property
    def _own(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _rubric(self) -> Rubric:
        return Rubric(self.rubric, type(self).__name__)

    def _rows(self, split: str) -> Rows:
        method = f"`{type(self).__name__}.load({split!r})`"
        return self._once(split, lambda: rows_of(self.load(split), method, folder_of(type(self))))

    def _once(self, name: str, read: Callable[[], T]) -> T:
        if name not in self._own:
            options = None if self.spec is None else content_hash(self.spec.kwargs)
            self._own[name] = kept(None if options is None else (type(self), options, name), read)
        value: T = self._own[name]
        return value

    def _any_seed(self, split: str) -> int:
        return int(self.np_random.integers(len(self._rows(split))))

    def _begin(self, seed: int, split: str) -> Turn:
        rows, number = self._rows(split), seed % NUMBERS
        if not 0 <= seed < len(rows) and seed < NUMBERS:
            raise EnvironmentFailed(
                f"`{type(self).__name__}` has {len(rows)} rows of `{split}`, with the seeds 0 to {len(rows) - 1}; the "
                f"seed {seed} is none of them"
            )
        row = rows[number] if number < len(rows) else {}
        if seed >= NUMBERS and seed != _seed(content_hash(row), number):
            raise EnvironmentBroken(
                f"{place(split, number)} is not the row of this task: the rows were edited or put in another order "
                "since the task was listed. Restore the rows, or begin a new run"
            )
        if not isinstance(row, Mapping):
            raise EnvironmentBroken(f"{place(split, number)} is a {type(row).__name__}, not a mapping of columns")
        self.episode = RowEpisode(split, number, copy.deepcopy(dict(row)), ())
        self._rubric.check_columns(self._ending(""))
        observation = self.first_observation(self.row)
        self._add_message("user", observation)
        return Turn(observation)

    def _play(self, action: str) -> Turn:
        valid: Any = self.is_valid(action)
        if not isinstance(valid, bool | np.bool_):
            raise EnvironmentBroken(
                f"is_valid() of {type(self).__name__} returned {shown(valid)}; it must return True or False"
            )
        self._add_message("assistant", action)
        answer = self.respond(action, self.row, self.conversation)
        observation = self._now(answer) if inspect.isawaitable(answer) else answer
        if observation is not None:
            self._add_message("user", observation)
            if len(self.episode.messages) < 2 * self.max_turns + 1:
                return Turn(observation, valid=bool(valid))
        values = self._rubric.values(self._ending(action), self.scoring, self.scoring_timeout_s)
        parts = {name: self._rubric.weights[name] * value for name, value in values.items()}
        success = next(iter(values.values())) >= self.success_at
        unscored = [name for name, value in values.items() if isinstance(value, Unscored)]
        info = {"extras": {UNSCORED: unscored}} if unscored else {}
        observation = "" if observation is None else observation
        return Turn(observation, parts, bool(valid), over=True, success=success, info=info)

    def _add_message(self, role: str, content: Any) -> None:
        message = {"role": role, "content": content}
        self.episode = replace(self.episode, messages=(*self.episode.messages, message))

    def _ending(self, action: str) -> Ending:
        return Ending(self, action, self.row, self.conversation, self.episode.where)

    def _now(self, work: Awaitable[Any]) -> Any:
        """Return the result of an awaitable, or raise its exception."""
        with self.scoring(math.inf):  # a wait for a judge does not count, and all others have the timeout of the step
            (result,) = results_of([work], max(0.0, self.deadline - time.monotonic()), "`respond`")
        if isinstance(result, Exception):
            raise result
        if isinstance(result, BaseException):  # such as SystemExit, which ends no other thread than this one
            raise wrap_error("`respond`", result)
        return result


def _seed(digest: str, number: int) -> int:
    return int(digest[:8], 16) * NUMBERS + number
