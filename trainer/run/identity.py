"""Decide from the name of a run whether a command begins, resumes or forks it, or is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ...errors import TurnwiseError
from ...store.queries.lists import RunRow
from ..config.loading import parse_config
from ..config.schema import RunConfig
from ..preflight.refusal import Command, Refusal, Refused

MAX_KEYS = 4
"""Differing keys that a refusal names."""


class NameFinished(TurnwiseError):
    """A name that was given by hand is that of a finished run: nothing else is checked."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The checkpoint that a fork begins with."""

    run: str
    version: int


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """The run that a command begins or resumes."""

    name: str
    resumes: bool
    parent: str | None = None
    """The run that this one was forked from."""
    parent_version: int | None = None
    """The version of ``parent`` that this run begins with; None for its newest checkpoint."""
    is_freed: bool = False
    """Whether a run of this name failed before it played or saved anything: it begins again."""
    extends: bool = False
    """Whether the run is finished and has a larger limit now: it is resumed."""

    @property
    def command(self) -> Command:
        """The command that the preflight checks."""
        if self.is_freed:
            return Command.TRAIN
        return Command.RESUME if self.resumes else Command.FORK if self.parent else Command.TRAIN


def resolve_run(
    config: RunConfig,
    find_run: Callable[[str], RunRow | None],
    fork: bool,
    is_empty: Callable[[str], bool] = lambda name: False,
    numbers: bool = True,
) -> RunIdentity:
    """Return the run that ``config`` names.

    * Unfinished, with the same mathematics (``RunConfig.digest``): the run is resumed.
    * Unfinished, with other mathematics: refused, unless ``fork`` begins a new run from its newest checkpoint (of the
      last run of the name that played or saved anything), or the run failed before it played or saved anything and is
      no fork: its name is free, and it begins again.
    * Finished: a new run begins, with a number after the name. Without ``numbers`` and ``fork``, the run is resumed if
      the mathematics is the same and a limit larger; else refused.

    Args:
        find_run: returns a run by its name; None if there is no such run.
        is_empty: returns whether a run has neither a group nor a checkpoint.

    Raises:
        Refused: the name belongs to an unfinished run with other mathematics.
        NameFinished: it belongs to a finished run.
    """
    existing: list[RunRow] = []
    while (row := find_run(_numbered(config.name, len(existing) + 1))) is not None:
        existing.append(row)
    if existing and existing[0].status == "finished" and not (numbers or fork):
        if existing[0].config_hash == config.digest() and _has_larger_limit(config, existing[0].config):
            last = existing[0]
            return RunIdentity(last.id, True, last.parent_id, last.parent_version, extends=True)
        remedy = (
            "raise `max_steps` or `max_seconds` to continue it, choose another `--name`, or begin from its weights: "
            f"`turnwise runs fork {config.name} --name NEW`"
        )
        raise NameFinished(f"run `{config.name}` is finished: {remedy}")
    next_name = _numbered(config.name, len(existing) + 1)
    unfinished = [one for one in existing if one.status != "finished"]
    same = [one for one in unfinished if one.config_hash == config.digest() and (not fork or one.parent_id)]
    if same:
        last = same[-1]
        return RunIdentity(last.id, resumes=True, parent=last.parent_id, parent_version=last.parent_version)
    if fork and existing:
        saved = [one for one in existing if not is_empty(one.id)] or existing
        return RunIdentity(next_name, resumes=False, parent=saved[-1].id)
    if (
        unfinished
        and unfinished[-1].status == "failed"
        and unfinished[-1].parent_id is None
        and is_empty(unfinished[-1].id)
    ):
        return RunIdentity(unfinished[-1].id, resumes=True, is_freed=True)
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


def resolve_fork(config: RunConfig, find_run: Callable[[str], RunRow | None], origin: Origin) -> RunIdentity:
    """Return the run that a fork of ``origin`` begins, or the unfinished one that the same command began.

    Its name is ``config.name``; if that is the name of the origin, the first free one of ``RUN-2``, ``RUN-3``, ….

    Raises:
        Refused: another run has the name.
    """
    name, number = config.name, 1
    while (row := find_run(_numbered(name, number))) is not None:
        forked = row.parent_id == origin.run and row.parent_version == origin.version
        if forked and row.status != "finished" and row.config_hash == config.digest():
            return RunIdentity(row.id, resumes=True, parent=origin.run, parent_version=origin.version)
        if name != origin.run:
            reason = f"the store has a run `{row.id}` already ({row.status})"
            raise Refused([Refusal("--name", reason, "choose another `--name`")])
        number += 1
    return RunIdentity(_numbered(name, number), resumes=False, parent=origin.run, parent_version=origin.version)


def _has_larger_limit(config: RunConfig, stored: Mapping[str, Any]) -> bool:
    """Return whether a limit is larger than that of a stored configuration, and none smaller."""
    limits = [(getattr(config, name) or inf, stored.get(name) or inf) for name in ("max_steps", "max_seconds")]
    return any(new > old for new, old in limits) and all(new >= old for new, old in limits)


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
