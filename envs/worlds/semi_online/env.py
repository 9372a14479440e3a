"""``turnwise/SemiOnline-v0``: semi-online training (UI-S1, Lu et al. 2025, arXiv:2509.11543).

A task is an episode of an expert, a line of a file. The environment shows the expert's observations, one per turn,
whatever the policy did, and compares each action of the policy with the expert's.

* If they match, the episode advances to the expert's next observation.
* If they do not match, a patch replaces the action in the history: the expert's action takes the place of the policy's,
  and the episode advances. After ``max_patches`` patches, or with ``patch = "none"``, the episode ends instead.

The policy's own action stays in the trajectory and is trained on; the tokens of the patch have the source ``patch``.

Reward of a turn: ``.1 * format + .9 * accuracy``. The format is 1 if the action is of any type that the experts use.
The accuracy is 1 for the expert's action, .5 for one of its type, .1 for one of another type, and 0 for an unparsable
one. The episode is a success if every action matched. To compare actions in another way, name a function in the option
``matcher``.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ....base.process.user_code import imported
from ....base.user_files import UnreadableFile, open_regular_file, read_regular_text
from ....errors import reason
from ...episode import EpisodeEnv, Turn
from ...errors import EnvironmentFailed
from ...options import not_negative, one_of
from ...runner.observations import MAX_OBSERVATION_BYTES
from ...spaces import FreeText

COMMAND = "python -m turnwise.envs.worlds.semi_online.experts"
MAX_FILE_BYTES = 2**30
"""Limit of a file of experts, which is in memory whole."""
THOUGHT_END = "</think>"
"""The end of the thought in a text: the action follows it."""


class Expert(BaseModel):
    """One episode of an expert."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    """A name, such as the id of the stored trajectory."""
    split: Literal["train", "test"] = "train"
    instructions: str = ""
    """The system prompt of the environment that the expert played."""
    observations: tuple[str, ...]
    """The observation before each action, and the final one; the final one may be empty."""
    actions: tuple[str, ...]
    """At least one; a thought, if there is any, ends with ``</think>``."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.actions or len(self.observations) != len(self.actions) + 1:
            raise ValueError(
                f"{len(self.observations)} observations and {len(self.actions)} actions: there must be an action, an "
                "observation before each, and a final observation"
            )
        return self


def without_thought(text: str) -> str:
    """Return the action in a text of an expert or of the policy, whose thought may lack its ``<think>``."""
    return text.rpartition(THOUGHT_END)[2].strip()


def read_experts(path: str) -> Sequence[Expert]:
    """Return the episodes of a file. A file that did not change is read once per process.

    Raises:
        EnvironmentFailed: the file cannot be read, or a line is not an episode.
    """
    try:
        with open_regular_file(path) as file:
            state = os.fstat(file.fileno())
        return _read(Path(os.path.realpath(path)), state.st_mtime_ns, state.st_size)
    except UnreadableFile as error:
        raise EnvironmentFailed(
            f"`path` of `turnwise/SemiOnline-v0`: {error}; `{COMMAND} --run RUN FILE` writes one"
        ) from error


@lru_cache(maxsize=4)
def _read(path: Path, modified_ns: int, size: int) -> Sequence[Expert]:
    found = []
    for number, line in enumerate(read_regular_text(path, MAX_FILE_BYTES).split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append(Expert.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise EnvironmentFailed(
                f"line {number} of `{path}` is not an episode of an expert: {where or 'the line'}: {reason(first)}"
            ) from error
    if not found:
        raise EnvironmentFailed(f"`{path}` holds no episode of an expert")
    return tuple(found)


def write_experts(path: Path, experts: Iterable[Expert]) -> int:
    """Write episodes to a file, which is replaced; return how many."""
    lines = [one.model_dump_json() + "\n" for one in experts]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


class Match(StrEnum):
    """The agreement of an action with the expert's."""

    UNPARSABLE = "unparsable"
    """It is not an action."""
    PARSED = "parsed"
    """It is an action of another type."""
    TYPE = "type"
    """It is an action of the same type, with other arguments."""
    EXACT = "exact"
    """It is the same action: the episode advances."""


Matcher: TypeAlias = Callable[[str, str, Collection[str]], Match]
"""Called with the expert's action, the policy's action, both without thoughts, and the types of the file's actions."""

FORMAT = 0.1
"""Weight of the format in the reward; the rest is that of the accuracy."""
ACCURACY = {Match.UNPARSABLE: 0.0, Match.PARSED: 0.1, Match.TYPE: 0.5, Match.EXACT: 1.0}
STOPPED = "the episode ends: the action is not the expert's"

Patch = Literal["none", "thought_free", "with_thought"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An episode of the policy."""

    expert: Expert
    turn: int = 0
    wrong: tuple[int, ...] = ()
    """The turns whose action did not match."""


class SemiOnlineEnv(EpisodeEnv[Attempt]):
    """Repeat the episodes of experts in the file ``path``, which the command ``experts`` writes.

    Args:
        patch: ``thought_free`` inserts the expert's action, ``with_thought`` the expert's whole text, ``none`` ends the
            episode at the first action that does not match.
        max_patches: patches per episode, at most.
        matcher: ``words``, or ``pkg.module:function``: a ``Matcher``.

    Raises:
        ValueError: an option is out of its range or, at reset, the split is unknown.
        EnvironmentFailed: the file or the matcher cannot be used, or the file has no episode of the split.
    """

    restorable = True

    def __init__(
        self, path: str = "", patch: Patch = "thought_free", max_patches: int = 2, matcher: str = "words"
    ) -> None:
        if not path:
            raise ValueError(f"`path` is missing: name the file that `{COMMAND}` wrote")
        one_of("patch", patch, get_args(Patch))
        not_negative("max_patches", max_patches)
        self._path = path
        self._experts = read_experts(path)
        self._types = frozenset(action_type(without_thought(text)) for one in self._experts for text in one.actions)
        self._match = find_matcher(matcher)
        self._patch = patch
        self._max_patches = 0 if patch == "none" else max_patches
        self.action_space = FreeText(words=sorted(self._types) or ("go",))
        self.observation_space = FreeText(MAX_OBSERVATION_BYTES)

    @property
    def state_key(self) -> str:
        """Name the expert's episode and the turn."""
        return f"{self.episode.expert.id} {self.episode.turn}"

    def instructions(self) -> str:
        """Return the system prompt that the experts had. Raises EnvironmentFailed: they had different ones."""
        found = {one.instructions for one in self._experts}
        if len(found) > 1:
            raise EnvironmentFailed(
                f"`{self._path}` holds experts with {len(found)} different instructions: write one file per environment"
            )
        return found.pop()

    def tasks(self, split: str) -> Sequence[int]:
        """Return one seed per episode of the split."""
        return range(len(self._of_split(split)))

    def _begin(self, seed: int, split: str) -> Turn:
        """Show the first observation of the episode with this number, modulo the number of episodes of the split."""
        experts = self._of_split(split)
        if not experts:
            raise EnvironmentFailed(
                f"`{self._path}` holds no expert of the split `{split}`; record some with "
                f"`turnwise eval --policy oracle --split {split}`, or set `evaluation.tasks = 0`"
            )
        self.episode = Attempt(experts[seed % len(experts)])
        return Turn(self.episode.expert.observations[0], success=None, info={"extras": self._extras()})

    def _play(self, action: str) -> Turn:
        """Compare an action with the expert's, and advance, patch or end."""
        expert, turn = self.episode.expert, self.episode.turn
        text = expert.actions[turn]
        match = Match(self._match(without_thought(text), without_thought(action), self._types))
        valid, right = match is not Match.UNPARSABLE, match is Match.EXACT
        parts = {"format": FORMAT * valid, "action": (1 - FORMAT) * ACCURACY[match]}
        if not right:
            self.episode = replace(self.episode, wrong=(*self.episode.wrong, turn))
            if len(self.episode.wrong) > self._max_patches:
                return Turn(STOPPED, parts, valid, over=True, info={"extras": self._extras()})
        patch = None if right else text if self._patch == "with_thought" else without_thought(text)
        self.episode = replace(self.episode, turn=turn + 1)
        over = turn + 1 == len(expert.actions)
        success = not self.episode.wrong if over else None
        return Turn(
            expert.observations[turn + 1], parts, valid, over, success, {"extras": self._extras(), "patch": patch}
        )

    def _ended(self) -> str:
        return STOPPED

    def oracle(self) -> str:
        """Return the expert's action."""
        return without_thought(self.episode.expert.actions[self.episode.turn])

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the different actions of the episode, in any order of the turns."""
        return [(text, 1.0) for text in sorted({without_thought(text) for text in self.episode.expert.actions})]

    def vocabulary(self) -> list[str]:
        """Return every word of the file's observations and actions, and those of the environment itself."""
        texts = (text for one in self._experts for text in (*one.observations, *one.actions, one.instructions))
        return sorted({word for text in (STOPPED, *texts) for word in text.split()})

    def _of_split(self, split: str) -> Sequence[Expert]:
        return [one for one in self._experts if one.split == split]

    def _extras(self) -> dict[str, object]:
        return {"expert": self.episode.expert.id, "wrong_turns": list(self.episode.wrong)}


def match_words(expert: str, action: str, types: Collection[str]) -> Match:
    """Compare two actions word by word. The type of an action is its first word, in lower case.

    White space and the case of the first word do not count.
    """
    kind, of_expert = action_type(action), action_type(expert)
    if kind not in types:
        return Match.UNPARSABLE
    if kind != of_expert:
        return Match.PARSED
    return Match.EXACT if action.split()[1:] == expert.split()[1:] else Match.TYPE


def action_type(action: str) -> str:
    """Return the first word of an action, in lower case; empty if it has no word."""
    return next(iter(action.split()), "").lower()


def find_matcher(name: str) -> Matcher:
    """Return the matcher of a name: ``words``, or ``pkg.module:function``.

    Raises:
        EnvironmentFailed: there is no such function.
    """
    if name == "words":
        return match_words
    try:
        found = imported(name)
    except ValueError as error:
        raise EnvironmentFailed(
            f"`matcher` of `turnwise/SemiOnline-v0`: {error}; write `words` or `pkg.module:function`"
        ) from error
    if not callable(found):
        raise EnvironmentFailed(f"`matcher` of `turnwise/SemiOnline-v0`: {name!r} is not a function")
    return found  # type: ignore[no-any-return]
