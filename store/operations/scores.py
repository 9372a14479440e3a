"""The scores of a closed group: its shaped rewards, the verdicts behind them, and its place in the queue.

A group is scored once. The number of the scoring orders the scored groups of a run: a resume passes the groups with a
higher number than its checkpoint's to the components again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, select

from ...records import GroupState
from ..content.digests import digest_of
from ..errors import NotFound, StoreConflict
from ..schema import score as score_table
from ..schema import trajectory as trajectory_table
from .group_states import transition
from .groups import locked_group
from .transaction import Transaction, operation

SCORED = frozenset({GroupState.READY, GroupState.FILTERED, GroupState.FAILED})


@dataclass(frozen=True, slots=True)
class Score:
    """The shaped rewards of one trajectory."""

    trajectory: str
    rewards: Sequence[float] | None
    """One per turn; None if a reward shaper could not score the trajectory."""
    verdicts: Sequence[Mapping[str, Any]] = field(default=())
    """JSON values from the reward shapers, in the order of the shapers."""


@operation
def score_group(
    tx: Transaction,
    *,
    group: str,
    number: int,
    state: GroupState,
    reason: str = "",
    scores: Sequence[Score] = (),
    epoch: int | None = None,
) -> None:
    """Store the scores of a group in state ``scoring`` and move it to ``state``; repeated, it changes nothing.

    Args:
        number: number of this scoring in the run; never used twice.
        scores: of the members that reward shapers read; the other members keep the environment's rewards.

    Raises:
        ValueError: ``state`` is not ready, filtered or failed.
        StoreConflict: the group was scored under another number, or is not in state ``scoring``.
        Fenced: another driver has taken over the run.
        NotFound: the group or a trajectory is not in the store.
    """
    if state not in SCORED:
        raise ValueError(f"a scored group is ready, filtered or failed, not {state}")
    stored = locked_group(tx, group, epoch)
    if stored.score_no == number:
        return
    if stored.score_no is not None or stored.state != GroupState.SCORING:
        raise StoreConflict(f"group {group} is {stored.state}, with scoring number {stored.score_no}: not to be scored")
    if scores:
        members = select(trajectory_table.c.id, trajectory_table.c.no).where(trajectory_table.c.group_no == stored.no)
        nos = {row.id: row.no for row in tx.conn.execute(members)}
        if missing := [one.trajectory for one in scores if one.trajectory not in nos]:
            raise NotFound(f"group {group} has no trajectory {missing[0]}")
        tx.conn.execute(insert(score_table), [_row(nos[one.trajectory], one) for one in scores])
    transition(tx.conn, [group], state, reason=reason, score_no=number, n_scores=len(scores))


def _row(trajectory_no: int, score: Score) -> dict[str, Any]:
    row = {
        "trajectory_no": trajectory_no,
        "rewards": None if score.rewards is None else [float(reward) for reward in score.rewards],
        "verdicts": [dict(verdict) for verdict in score.verdicts],
    }
    return dict(row, digest=score_digest(row))


def score_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of a row of ``score``."""
    return digest_of(row[name] for name in ("trajectory_no", "rewards", "verdicts"))
