"""The episodes of experts that the policy imitates: a file with one JSON object per line."""

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ...user_files import UnreadableFile, open_regular_file, read_regular_text
from ..errors import EnvironmentFailed

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
    """Return the action in a text, without the thought before it."""
    return text.rpartition(THOUGHT_END)[2].strip()


def read_experts(path: str) -> Sequence[Expert]:
    """Return the episodes of a file. A file that did not change is read once per process.

    Raises:
        EnvironmentFailed: the file cannot be read, or a line is not an episode.
    """
    try:
        with open_regular_file(path, MAX_FILE_BYTES) as file:
            state = os.fstat(file.fileno())
        return _read(Path(os.path.realpath(path)), state.st_mtime_ns, state.st_size)
    except UnreadableFile as error:
        raise EnvironmentFailed(
            f"`path` of `turnwise/SemiOnline-v0`: {error}; `turnwise trajectories experts --run RUN FILE` writes one"
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
                f"line {number} of `{path}` is not an episode of an expert: {where or 'the line'}: {first['msg']}"
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
