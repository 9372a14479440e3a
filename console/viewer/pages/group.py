"""A group: what became of it, and its members turn by turn next to one another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....errors import TurnwiseError
from ....records import Step, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.errors import Pruned
from ....store.queries.fates import GroupFate, MemberFate
from ....store.queries.load import load_trajectories
from ....trainer.run.retraining.token_rows import trained_tokens
from ..given import Given
from .text import Cut, advantages

MEMBERS_SHOWN = 4
TURNS_SHOWN = 20
OBSERVATION_CHARS = 600
ACTION_CHARS = 600


@dataclass(frozen=True, slots=True)
class Cell:
    """A turn of a member."""

    observation: Cut
    images: Sequence[str]
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
    first: int
    """Place of the first shown member."""
    previous_first: int | None
    next_first: int | None
    rows: Sequence[TurnRow]
    start: int
    """The first shown turn."""
    next_start: int | None
    first_divergence: int | None
    """The first turn in which two of the shown members saw or did different things; None if none is."""
    note: str
    """Why the turns or the advantages are missing; empty if they are not."""


def load_group(database: Database, given: Given) -> GroupPage:
    """Return a group with ``MEMBERS_SHOWN`` members from ``member`` on, and its turns from ``start`` on."""
    first, start = given.number("member"), given.number("start")
    with database.read() as conn:
        row = queries.find_group(conn, given.path["group"])
        status = queries.find_run(conn, row.run_id).status
        fate = queries.group_fates(conn, [row], status)[0]
    shown = fate.members[first : first + MEMBERS_SHOWN]
    note = ""
    try:
        members = load_trajectories(database, [one.trajectory for one in shown], texts=True)
    except Pruned as error:
        members, note = [], str(error)
    by_turn: list[dict[int, float]] = []
    if members:
        by_turn, note = _advantages(database, fate, [one.id for one in members])
    length = max((len(one.steps) for one in members), default=0)
    ends = range(start, min(start + TURNS_SHOWN, length))
    return GroupPage(
        fate=fate,
        run=row.run_id,
        run_status=status,
        shown=shown,
        first=first,
        previous_first=max(first - MEMBERS_SHOWN, 0) if first else None,
        next_first=first + MEMBERS_SHOWN if first + MEMBERS_SHOWN < len(fate.members) else None,
        rows=[_turn(members, by_turn, turn) for turn in ends],
        start=start,
        next_start=start + TURNS_SHOWN if start + TURNS_SHOWN < length else None,
        first_divergence=next((turn for turn in range(length) if not _is_same(members, turn)), None),
        note=note,
    )


def _advantages(database: Database, fate: GroupFate, names: Sequence[str]) -> tuple[list[dict[int, float]], str]:
    """Return the advantage of each turn of each member in the update that consumed the group, or why there is none."""
    none: list[dict[int, float]] = [{} for _ in names]
    if fate.update is None:
        return none, ""
    try:
        with database.read() as conn:
            update = queries.load_update(conn, fate.group.run_id, fate.update)
        found = trained_tokens(database, update, names)
    except TurnwiseError as error:
        return none, str(error)
    return [advantages(found[name][1]) if name in found else {} for name in names], ""


def _turn(members: Sequence[Trajectory], by_turn: Sequence[Mapping[int, float]], turn: int) -> TurnRow:
    cells = [_cell(members, one, values, turn) for one, values in zip(members, by_turn, strict=True)]
    seen = {one.steps[turn].observation_hash for one in members if turn < len(one.steps)}
    return TurnRow(turn, len(seen) == 1 and None not in cells, cells)


def _cell(members: Sequence[Trajectory], member: Trajectory, values: Mapping[int, float], turn: int) -> Cell | None:
    if turn >= len(member.steps):
        return None
    step, others = member.steps[turn], members[0].steps
    return Cell(
        observation=Cut.of(step.observation, OBSERVATION_CHARS),
        images=step.images or ([step.screenshot] if step.screenshot else []),
        action=Cut.of(step.action, ACTION_CHARS),
        reward=step.reward,
        reward_parts=step.reward_parts,
        advantage=values.get(turn),
        action_valid=step.action_valid,
        failed=step.failed,
        is_same=turn < len(others) and _did(step) == _did(others[turn]),
    )


def _did(step: Step) -> tuple[str, str]:
    return step.observation_hash, step.action


def _is_same(members: Sequence[Trajectory], turn: int) -> bool:
    """Return whether all members that play a turn, and all that ended before it, are alike there."""
    return len({_did(one.steps[turn]) if turn < len(one.steps) else None for one in members}) < 2
