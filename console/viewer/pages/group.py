"""A group: what became of it, and its members turn by turn next to one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ....records import Step, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.errors import Pruned
from ....store.queries.fates import GroupFate, MemberFate
from ..given import BadAddress, Given
from .episode.branches import Tree, load_tree
from .episode.part import load_part, turn_total
from .episode.pictures import Picture, pictures, seen_in, sizes_of, targets_of
from .text import Cut

MEMBERS_SHOWN, MEMBERS_MAX = 4, 8
"""Members next to one another: without a choice, and at most."""
TURNS_SHOWN, TURNS_COMPARED = 20, 500
"""Turns on a page, and turns that are read at once to find where members part."""
OBSERVATION_CHARS = 600
ACTION_CHARS = 600


@dataclass(frozen=True, slots=True)
class Cell:
    """A turn of a member."""

    observation: Cut
    pictures: Sequence[Picture]
    action: Cut
    reward: float
    reward_parts: Mapping[str, float]
    advantage: float | None
    """Mean over the trained tokens; None if no update trained on one."""
    action_valid: bool
    failed: bool
    is_same: bool
    """Whether observation and action are those of the first shown member."""


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn of all shown members."""

    turn: int
    is_common: bool
    """Whether all shown members play this turn and saw the same observation."""
    cells: Sequence[Cell | None]
    """None for a member that has ended before."""


@dataclass(frozen=True, slots=True)
class GroupPage:
    """A group with some of its members."""

    fate: GroupFate
    run: str
    run_status: str
    shown: Sequence[MemberFate]
    previous: Sequence[int]
    """The members before the shown ones, as many; empty for none."""
    next: Sequence[int]
    rows: Sequence[TurnRow]
    start: int
    """The first shown turn."""
    next_start: int | None
    previous_start: int | None
    first_divergence: int | None
    """The first turn in which two of the shown members saw or did different things; None if none is."""
    divergence: str
    """How they part there: ``saw`` (different observations), ``did`` (different actions) or ``ended`` (one of them had
    ended); empty if they do not."""
    tree: Tree | None
    """The tree of the group, if its episodes branch from one another."""
    members_max: int
    """Members next to one another, at most."""
    turns_max: int
    """Turns on a page, at most."""
    note: str
    """Why the turns are missing; empty if they are not."""


def load_group(database: Database, given: Given) -> GroupPage:
    """Return a group with the chosen ``members``, such as ``0,3``, or the first ones, and its turns from ``start`` on.

    Raises:
        BadAddress: ``members`` names no member, or too many.
    """
    start = given.number("start")
    end = start + TURNS_SHOWN
    with database.read() as conn:
        row = queries.find_group(conn, given.path["group"])
    status = queries.driven_run(database, row.run_id).status
    with database.read() as conn:
        fate = queries.group_fates(conn, [row], status)[0]
    shown = _chosen(fate.members, given.text("members"))
    note, chosen = "", [one.trajectory for one in shown]
    totals = [turn_total(database, name) for name in chosen]
    try:
        parts = [
            load_part(database, name, total, start, start + TURNS_SHOWN)
            for name, total in zip(chosen, totals, strict=True)
        ]
    except Pruned as error:
        parts, totals, note = [], [], str(error)
    credit = {one.trajectory: one.turn_advantages for one in shown}
    length = max(totals, default=0)
    members = [_Member(part.found, {step.index: step for step in part.steps(start, end)}) for part in parts]
    sizes = sizes_of(database, (name for one in members for step in one.steps.values() for name in seen_in(step)))
    first, divergence = _divergence(database, chosen if parts else [], length)
    before, after = _neighbors(fate.members, shown)
    return GroupPage(
        fate=fate,
        run=row.run_id,
        run_status=status,
        shown=shown,
        previous=before,
        next=after,
        rows=[_turn(members, credit, sizes, turn) for turn in range(start, min(end, length))],
        start=start,
        next_start=end if end < length else None,
        previous_start=max(start - TURNS_SHOWN, 0) if start else None,
        first_divergence=first,
        divergence=divergence,
        tree=load_tree(database, fate),
        members_max=MEMBERS_MAX,
        turns_max=TURNS_SHOWN,
        note=note,
    )


def _chosen(members: Sequence[MemberFate], text: str | None) -> list[MemberFate]:
    if text is None:
        return list(members[:MEMBERS_SHOWN])
    by_number = {one.member: one for one in members}
    names = [one.strip() for one in text.split(",") if one.strip()]
    numbers = list(dict.fromkeys(int(one) for one in names if one.isascii() and one.isdecimal() and len(one) < 10))
    unknown = [one for one in names if not (one.isascii() and one.isdecimal()) or int(one[:10]) not in by_number]
    if unknown:
        known = ", ".join(map(str, list(by_number)[:20]))
        raise BadAddress(f"`members`: the group has no member {unknown[0][:80]!r}; its members are {known}")
    if len(numbers) > MEMBERS_MAX:
        raise BadAddress(f"`members` names {len(numbers)} members; at most {MEMBERS_MAX} are shown")
    return [by_number[one] for one in numbers]


def _neighbors(members: Sequence[MemberFate], shown: Sequence[MemberFate]) -> tuple[list[int], list[int]]:
    """Return the members before and after the shown ones, as many as are shown."""
    numbers = [one.member for one in members]
    places = sorted(numbers.index(one.member) for one in shown)
    if not places:
        return [], []
    first, last = places[0], places[-1]
    return numbers[max(first - len(places), 0) : first], numbers[last + 1 : last + 1 + len(places)]


@dataclass(frozen=True, slots=True)
class _Member:
    """A shown member with its shown turns by index."""

    found: Trajectory
    steps: Mapping[int, Step]


def _turn(
    members: Sequence[_Member],
    credit: Mapping[str, Mapping[str, float]],
    sizes: Mapping[str, tuple[int, int]],
    turn: int,
) -> TurnRow:
    cells = [_cell(members, one, credit.get(one.found.id, {}), sizes, turn) for one in members]
    seen = {one.steps[turn].observation_hash for one in members if turn in one.steps}
    return TurnRow(turn, len(seen) == 1 and None not in cells, cells)


def _cell(
    members: Sequence[_Member],
    member: _Member,
    credit: Mapping[str, float],
    sizes: Mapping[str, tuple[int, int]],
    turn: int,
) -> Cell | None:
    if turn not in member.steps:
        return None
    step, others = member.steps[turn], members[0].steps
    return Cell(
        observation=Cut.of(step.observation, OBSERVATION_CHARS),
        pictures=pictures(seen_in(step), sizes, targets_of(member.found.extras, turn)),
        action=Cut.of(step.action, ACTION_CHARS),
        reward=step.reward,
        reward_parts=step.reward_parts,
        advantage=credit.get(str(turn)),
        action_valid=step.action_valid,
        failed=step.failed,
        is_same=turn in others and _did(step) == _did(others[turn]),
    )


def _did(step: Step) -> tuple[str, str]:
    return step.observation_hash, step.action


def _divergence(database: Database, names: Sequence[str], length: int) -> tuple[int | None, str]:
    """Return the first turn in which members part, and how (``GroupPage.divergence``); None and empty if in none."""
    with database.read() as conn:
        for first in range(0, length, TURNS_COMPARED):
            acts = [queries.acts(conn, name, first, first + TURNS_COMPARED) for name in names]
            for turn, here in enumerate(zip_longest(*acts), first):
                if how := _parting(here):
                    return turn, how
    return None, ""


def _parting(acts: Sequence[tuple[str, str] | None]) -> str:
    """Return how members part in a turn; empty if they are alike there. None for a member that has ended."""
    played = [one for one in acts if one is not None]
    if len({seen for seen, _ in played}) > 1:
        return "saw"
    if len({did for _, did in played}) > 1:
        return "did"
    return "ended" if len(played) < len(acts) else ""
