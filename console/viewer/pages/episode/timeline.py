"""The time of an episode by lane, and the turns at which other weights took over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .....records import Step, Trajectory
from .....trainer.algorithms.groups import turn_of_messages

LANES = ("sampling", "environment", "waiting")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a turn on the timeline, in seconds from the beginning of the episode."""

    turn: int
    lane: str
    """One of ``LANES``."""
    start_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Boundary:
    """The start of a turn whose tokens other versions sampled than those of the turn before."""

    turn: int
    start_s: float
    versions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """How the time of an episode was spent."""

    segments: Sequence[Segment]
    length_s: float
    totals_s: Mapping[str, float]
    """By lane."""
    boundaries: Sequence[Boundary]


def versions_by_turn(found: Trajectory) -> dict[int, list[int]]:
    """Return the versions that sampled a token of each turn, by index; turns without one are left out."""
    turns = turn_of_messages(found)
    by_turn: dict[int, set[int]] = {}
    for message in found.messages:
        turn = turns.get(message.index)
        sampled = {int(version) for version in message.versions if version >= 0}
        if turn is not None and sampled:
            by_turn.setdefault(turn, set()).update(sampled)
    return {turn: sorted(versions) for turn, versions in by_turn.items()}


def timeline(steps: Sequence[Step], versions: Mapping[int, Sequence[int]]) -> Timeline:
    """Return the timeline of an episode: a turn ends with the answer of its environment.

    Args:
        versions: as ``versions_by_turn`` returns them.
    """
    segments: list[Segment] = []
    starts: dict[int, float] = {}
    clock, before = 0.0, None
    for step in steps:
        model_s, env_s = max(step.model_ms, 0.0) / 1000, max(step.env_ms, 0.0) / 1000
        passed = 0.0 if before is None or step.created_at is None else (step.created_at - before).total_seconds()
        waited = max(passed - model_s - env_s, 0.0)
        starts[step.index] = clock
        for lane, length in (("waiting", waited), ("sampling", model_s), ("environment", env_s)):
            if length:
                segments.append(Segment(step.index, lane, clock, length))
            clock += length
        before = step.created_at
    totals = {lane: sum(one.length_s for one in segments if one.lane == lane) for lane in LANES}
    changed = [turn for earlier, turn in pairwise(sorted(versions)) if versions[earlier] != versions[turn]]
    return Timeline(segments, clock, totals, [Boundary(turn, starts[turn], versions[turn]) for turn in changed])
