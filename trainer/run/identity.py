"""Decide from the name of a run whether a command begins, resumes or forks it, or is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import TurnwiseError
from ...store.queries.lists import RunRow
from ..config.loading import parse_config
from ..config.schema import RunConfig
from ..preflight.refusal import Command, Refusal, Refused

MAX_KEYS = 4
"""Differing keys that a refusal names."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that a command begins or resumes."""

    name: str
    resumes: bool
    parent: str | None = None
    """The run that this one was forked from."""

    @property
    def command(self) -> Command:
        """The command that the preflight checks."""
        return Command.RESUME if self.resumes else Command.FORK if self.parent else Command.TRAIN


def resolve_run(config: RunConfig, find_run: Callable[[str], RunRow | None], fork: bool) -> RunIdentity:
    """Return the run that ``config`` names.

    * Unfinished, with the same mathematics (``RunConfig.digest``): the run is resumed.
    * Unfinished, with other mathematics: refused, unless ``fork`` begins a new run from its newest checkpoint.
    * Finished: a new run begins, with a number after the name.

    Args:
        find_run: returns a run by its name; None if there is no such run.

    Raises:
        Refused: the name belongs to an unfinished run with other mathematics.
    """
    existing: list[RunRow] = []
    while (row := find_run(_numbered(config.name, len(existing) + 1))) is not None:
        existing.append(row)
    next_name = _numbered(config.name, len(existing) + 1)
    unfinished = [one for one in existing if one.status != "finished"]
    same = [one for one in unfinished if one.config_hash == config.digest() and (not fork or one.parent_id)]
    if same:
        return RunIdentity(same[-1].id, resumes=True, parent=same[-1].parent_id)
    if fork and existing:
        return RunIdentity(next_name, resumes=False, parent=existing[-1].id)
    if unfinished:
        last = unfinished[-1]
        reason = (
            f"run `{last.id}` is unfinished ({last.status}) and has another configuration"
            f"{_differences(config, last.config)}"
        )
        remedy = (
            "restore the old configuration to resume it, change `name`, or add `--fork` to start a new run from its "
            "newest checkpoint"
        )
        raise Refused([Refusal("name", reason, remedy)])
    return RunIdentity(next_name, resumes=False)


def _differences(config: RunConfig, stored: Any) -> str:
    """Return the keys whose values differ from a stored configuration, as the end of a clause."""
    try:
        keys = config.differences(parse_config(stored))
    except TurnwiseError:
        return ""  # Written by another version, which had other keys.
    shown = ", ".join(f"`{key}`" for key in keys[:MAX_KEYS])
    return f" (other values of {shown}{' and others' if len(keys) > MAX_KEYS else ''})" if keys else ""


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
