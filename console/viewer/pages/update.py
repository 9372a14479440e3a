"""An update: the version that it made, its metrics, and its batch with weights and staleness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ....store import queries
from ....store.database import Database
from ....store.queries.lineage import BatchGroup
from ..given import Given

PAGE_GROUPS = 25


@dataclass(frozen=True, slots=True)
class TrainedMember:
    """A trajectory of a batch."""

    trajectory: str
    fresh: bool
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    status: str
    success: bool | None
    reward: float
    min_version: int | None
    max_version: int | None


@dataclass(frozen=True, slots=True)
class TrainedGroup:
    """A group of a batch."""

    group: BatchGroup
    members: Sequence[TrainedMember]


@dataclass(frozen=True, slots=True)
class UpdatePage:
    """An update of a run's surviving history."""

    run: str
    update: int
    version: int
    parent: int | None
    weights_hash: str
    checkpoint: str
    created_at: datetime
    metrics: Mapping[str, Any]
    groups: Sequence[TrainedGroup]
    """Those of this page, in the order of the batch."""
    total: int
    """Groups of the batch."""
    start: int
    next_start: int | None
    trajectories: int
    tokens: int
    previous: int | None
    following: int | None


def load_update_page(database: Database, given: Given) -> UpdatePage:
    """Return an update with its groups from ``start`` on."""
    run, number, start = given.path["run"], given.number("update"), given.number("start")
    with database.read() as conn:
        found = queries.load_update(conn, run, number)
        numbers = queries.update_numbers(conn, run)
    known = {group.id for group in found.groups}
    # A replay buffer may put a trajectory of another group into a group of the batch.
    replayed = dict.fromkeys(one.group for one in found.members if one.group not in known)
    batch = [*found.groups, *(BatchGroup(name, "", "", fresh=False) for name in replayed)]
    groups = []
    for group in batch[start : start + PAGE_GROUPS]:
        of_group = [one for one in found.members if one.group == group.id]
        groups.append(
            TrainedGroup(
                group,
                [TrainedMember(**{name: getattr(one, name) for name in TrainedMember.__slots__}) for one in of_group],
            )
        )
    place = numbers.index(number) if number in numbers else 0
    end = start + PAGE_GROUPS
    return UpdatePage(
        run=run,
        update=number,
        version=found.version,
        parent=found.parent,
        weights_hash=found.weights_hash,
        checkpoint=found.checkpoint,
        created_at=found.created_at,
        metrics=found.metrics,
        groups=groups,
        total=len(batch),
        start=start,
        next_start=end if end < len(batch) else None,
        trajectories=len(found.members),
        tokens=sum(one.tokens_trained for one in found.members),
        previous=numbers[place - 1] if place else None,
        following=numbers[place + 1] if place + 1 < len(numbers) else None,
    )
