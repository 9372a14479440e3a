"""The scores of a closed group: its shaped rewards, the verdicts behind them, and its place in the queue.

A group is scored once. The number of the scoring orders the scored groups of a run: a resume passes the groups with a
higher number than its checkpoint's to the components again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import insert, select

from ...records import GroupState
from ..errors import NotFound, StoreConflict
from ..schema import rollout_group
from ..schema import score as score_table
from .group_states import transition
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
    tx: Transaction, *, group: str, number: int, state: GroupState, reason: str = "", scores: Sequence[Score] = ()
) -> None:
    """Store the scores of a group in state ``scoring`` and move it to ``state``; repeated, it changes nothing.

    Args:
        number: number of this scoring in the run; never used twice.
        scores: of the members that reward shapers read; the other members keep the environment's rewards.

    Raises:
        ValueError: ``state`` is not ready, filtered or failed.
        StoreConflict: the group was scored under another number, or is not in state ``scoring``.
        NotFound: the group is not in the store.
    """
    if state not in SCORED:
        raise ValueError(f"a scored group is ready, filtered or failed, not {state}")
    stored = tx.conn.execute(select(rollout_group).where(rollout_group.c.id == group).with_for_update()).one_or_none()
    if stored is None:
        raise NotFound(f"no group {group} in the store")
    if stored.score_no == number:
        return
    if stored.score_no is not None or stored.state != GroupState.SCORING:
        raise StoreConflict(f"group {group} is {stored.state}, with scoring number {stored.score_no}: not to be scored")
    if scores:
        rows = [
            {
                "trajectory_id": one.trajectory,
                "rewards": None if one.rewards is None else [float(reward) for reward in one.rewards],
                "verdicts": [dict(verdict) for verdict in one.verdicts],
            }
            for one in scores
        ]
        tx.conn.execute(insert(score_table), rows)
    transition(tx.conn, [group], state, reason=reason, score_no=number)
