"""A run is its name: whether a command begins one, resumes one, forks one, or is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...errors import TurnwiseError
from ..config.schema import RunConfig


class RunRefused(TurnwiseError):
    """The run of that name has another configuration."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What this command does."""

    name: str
    resumes: bool
    parent: str | None = None
    """The run it is forked from."""


def decide(config: RunConfig, row: Callable[[str], Any | None], fork: bool) -> Identity:
    """The run this configuration means.

    Unfinished with the same mathematics (``RunConfig.digest``): it is resumed. With another: refused, unless ``fork``
    makes a new run that starts from its newest checkpoint. Finished: a new run, numbered.

    Args:
        row: looks a run up by name; its ``status`` and ``config_hash`` are read.

    Raises:
        RunRefused: see above; the message says what to do.
    """
    chain: list[Any] = []
    while (found := row(_numbered(config.name, len(chain) + 1))) is not None:
        chain.append(found)
    fresh = _numbered(config.name, len(chain) + 1)
    unfinished = [one for one in chain if one["status"] != "finished"]
    mine = [one for one in unfinished if one["config_hash"] == config.digest() and (not fork or one["parent_id"])]
    if mine:
        return Identity(mine[-1]["id"], resumes=True, parent=mine[-1]["parent_id"])
    if fork and chain:
        return Identity(fresh, resumes=False, parent=chain[-1]["id"])
    if unfinished:
        name = unfinished[-1]["id"]
        raise RunRefused(
            f"run {name!r} is unfinished ({unfinished[-1]['status']}) and has another configuration: give back the old "
            "one to resume it, change `name`, or add --fork to start a new run from its newest checkpoint"
        )
    return Identity(fresh, resumes=False)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
