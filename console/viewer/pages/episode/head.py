"""What the page of an episode and its document both say of the whole episode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .....records import Task, Trajectory
from .....store.operations import Rewards
from .....store.queries.lineage import TrajectoryUse

_SAME = (
    *("run", "group", "member", "attempt", "success", "reward", "policy", "error", "stop_reason"),
    *("branched_from", "branched_at", "deterministic"),
)
"""The fields that are those of the trajectory."""


@dataclass(frozen=True, slots=True)
class EpisodeHead:
    """An episode without its turns."""

    trajectory: str
    run: str
    group: str
    member: int
    attempt: int
    task: Task
    status: str
    success: bool | None
    reward: float
    shaped: float | None
    """The shaped return, if the run has one."""
    verdicts: Sequence[Mapping[str, Any]]
    part_totals: Mapping[str, float]
    policy: str
    source: str
    error: str
    stop_reason: str
    branched_from: str | None
    branched_at: int | None
    deterministic: bool
    training: str
    """Whether it was trained on, or why not."""
    uses: Sequence[TrajectoryUse]


def head_values(
    found: Trajectory,
    task: Task,
    rewards: Rewards | None,
    part_totals: Mapping[str, float],
    training: str,
    uses: Sequence[TrajectoryUse],
) -> dict[str, Any]:
    """Return the value of each field of ``EpisodeHead``."""
    return {
        "trajectory": found.id,
        "task": task,
        "status": found.status.value,
        "source": found.source.value,
        "shaped": None if rewards is None or rewards.rewards is None else float(sum(rewards.rewards)),
        "verdicts": () if rewards is None else rewards.verdicts,
        "part_totals": part_totals,
        "training": training,
        "uses": uses,
        **{name: getattr(found, name) for name in _SAME},
    }
