"""A part of a long episode: of more than ``WHOLE_TURNS`` turns, a page loads those that it shows."""

from dataclasses import dataclass

from .....records import Step, Trajectory
from .....store import queries
from .....store.database import Database

WHOLE_TURNS = 1_000
"""Turns up to which an episode is loaded, and compared with its seal, as a whole."""


@dataclass(frozen=True, slots=True)
class Part:
    """An episode with some of its turns, or with all."""

    found: Trajectory
    total: int
    """Turns of the episode."""

    @property
    def is_whole(self) -> bool:
        """Whether it has all turns, whose tokens may have the values of an update."""
        return len(self.found.steps) == self.total

    def steps(self, first: int, last: int) -> list[Step]:
        """Return the turns from ``first`` to ``last``, which is left out."""
        return [step for step in self.found.steps if first <= step.index < last]


def turn_total(database: Database, name: str) -> int:
    """Return the number of stored turns of an episode; 0 if there is no such episode."""
    with database.read() as conn:
        return queries.n_turns(conn, name)


def load_part(database: Database, name: str, total: int, first: int, last: int, *, texts: bool = True) -> Part:
    """Return an episode of ``total`` turns with at least those from ``first`` to ``last``, which is left out.

    Args:
        texts: False leaves out the observations of a long episode.

    Raises:
        NotFound, Pruned, StepCorrupt, BlobMissing: as ``queries.load_trajectory``.
    """
    if total <= WHOLE_TURNS:
        return Part(found := queries.load_trajectory(database, name), len(found.steps))
    return Part(queries.load_turns(database, name, first, last, texts=texts), total)


def left_out_note(part: Part) -> str:
    """Return why the values of an update are missing; empty if the episode is whole."""
    if part.is_whole:
        return ""
    return (
        f"the values of an update are left out: the episode has {part.total:,} turns, and a page has these values of "
        f"at most {WHOLE_TURNS:,}; the download as JSON has the advantage of each turn"
    )
