"""A group: what became of it, and its members turn by turn next to one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....records import Step, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.errors import Pruned
from ....store.queries.fates import GroupFate, MemberFate
from ....store.queries.load import load_trajectories
from ..given import BadAddress, Given
from .episode.branches import Tree, load_tree, turn_advantages
from .episode.pictures import Picture, pictures, seen_in, sizes_of, targets_of
from .text import Cut

MEMBERS_SHOWN, MEMBERS_MAX = 4, 8
"""Members next to one another: without a choice, and at most."""
TURNS_SHOWN = 20
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
    """Why the turns or the advantages are missing; empty if they are not."""


def load_group(database: Database, given: Given) -> GroupPage:
    """Return a group with the chosen ``members``, such as ``0,3``, or the first ones, and its turns from ``start`` on.

    Raises:
        BadAddress: ``members`` names no member, or too many.
    """
    start = given.number("start")
    with database.read() as conn:
        row = queries.find_group(conn, given.path["group"])
    status = queries.driven_run(database, row.run_id).status
    with database.read() as conn:
        fate = queries.group_fates(conn, [row], status)[0]
    shown = _chosen(fate.members, given.text("members"))
    note = ""
    try:
        members = load_trajectories(database, [one.trajectory for one in shown], texts=True)
    except Pruned as error:
        members, note = [], str(error)
    credit: dict[str, dict[int, float]] = {}
    if members:
        credit, note = turn_advantages(database, fate, [one.id for one in members])
    length = max((len(one.steps) for one in members), default=0)
    turns = range(start, min(start + TURNS_SHOWN, length))
    names = (name for one in members for step in one.steps[start : start + TURNS_SHOWN] for name in seen_in(step))
    sizes = sizes_of(database, names)
    first = next((turn for turn in range(length) if _parting(members, turn)), None)
    before, after = _neighbors(fate.members, shown)
    return GroupPage(
        fate=fate,
        run=row.run_id,
        run_status=status,
        shown=shown,
        previous=before,
        next=after,
        rows=[_turn(members, credit, sizes, turn) for turn in turns],
        start=start,
        next_start=start + TURNS_SHOWN if start + TURNS_SHOWN < length else None,
        previous_start=max(start - TURNS_SHOWN, 0) if start else None,
        first_divergence=first,
        divergence="" if first is None else _parting(members, first),
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


def _turn(
    members: Sequence[Trajectory],
    credit: Mapping[str, Mapping[int, float]],
    sizes: Mapping[str, tuple[int, int]],
    turn: int,
) -> TurnRow:
    cells = [_cell(members, one, credit.get(one.id, {}), sizes, turn) for one in members]
    seen = {one.steps[turn].observation_hash for one in members if turn < len(one.steps)}
    return TurnRow(turn, len(seen) == 1 and None not in cells, cells)


def _cell(
    members: Sequence[Trajectory],
    member: Trajectory,
    credit: Mapping[int, float],
    sizes: Mapping[str, tuple[int, int]],
    turn: int,
) -> Cell | None:
    if turn >= len(member.steps):
        return None
    step, others = member.steps[turn], members[0].steps
    return Cell(
        observation=Cut.of(step.observation, OBSERVATION_CHARS),
        pictures=pictures(seen_in(step), sizes, targets_of(member.extras, turn)),
        action=Cut.of(step.action, ACTION_CHARS),
        reward=step.reward,
        reward_parts=step.reward_parts,
        advantage=credit.get(turn),
        action_valid=step.action_valid,
        failed=step.failed,
        is_same=turn < len(others) and _did(step) == _did(others[turn]),
    )


def _did(step: Step) -> tuple[str, str]:
    return step.observation_hash, step.action


def _parting(members: Sequence[Trajectory], turn: int) -> str:
    """Return how the members part in a turn (``GroupPage.divergence``); empty if they are alike there."""
    steps = [one.steps[turn] for one in members if turn < len(one.steps)]
    if len({step.observation_hash for step in steps}) > 1:
        return "saw"
    if len({step.action for step in steps}) > 1:
        return "did"
    return "ended" if len(steps) < len(members) else ""
