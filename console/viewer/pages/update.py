"""An update: the version that it made, its metrics, and its batch with weights and staleness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ....store import queries
from ....store.database import Database
from ....store.queries.fates import LeftOut
from ....store.queries.lineage import BatchGroup, BatchMember
from ....trainer.learner.provenance.recipe import decode_details, importance_weights
from ....trainer.telemetry.events import component_metrics
from ..given import Given

PAGE_GROUPS = 25


@dataclass(frozen=True, slots=True)
class TrainedMember:
    """A trajectory of a batch."""

    item: BatchMember
    """Without the values per token."""
    mean_weight: float | None
    """Mean importance weight of the trained tokens that the policy sampled, before its cap; None without one."""
    max_weight: float | None


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
    made_by: Mapping[int, int]
    """By id of a version that sampled in the shown groups, the number of the update that made it."""
    parent: int | None
    weights_hash: str
    checkpoint: str
    created_at: datetime
    metrics: Mapping[str, Any]
    groups: Sequence[TrainedGroup]
    """Those of this page, in the order of the batch."""
    total: int
    """Groups of the batch."""
    left_out: Sequence[LeftOut]
    """Groups that closed since the update before and were not trained on."""
    waiting: int
    """Groups that had closed as well, and that a later update trained on."""
    start: int
    next_start: int | None
    trajectories: int
    tokens: int
    """Trained tokens; 0 if the gradient of the update was 0."""
    components: Mapping[str, float]
    """The metrics that components added."""
    previous: int | None
    following: int | None


def load_update_page(database: Database, given: Given) -> UpdatePage:
    """Return an update with its groups from ``start`` on."""
    run, number, start = given.path["run"], given.number("update"), given.number("start")
    with database.read() as conn:
        found = queries.load_update(conn, run, number)
        numbers = queries.update_numbers(conn, run)
        left_out, waiting = queries.left_out(conn, run, number), queries.waiting(conn, run, number)
    known = {group.id for group in found.groups}
    # A replay buffer may put a trajectory of another group into a group of the batch.
    replayed = dict.fromkeys(one.group for one in found.members if one.group not in known)
    batch = [*found.groups, *(BatchGroup(name, "", "", fresh=False) for name in replayed)]
    sources = (found.recipe or {}).get("sources", ())
    groups = [
        TrainedGroup(group, [_trained(one, sources) for one in found.members if one.group == group.id])
        for group in batch[start : start + PAGE_GROUPS]
    ]
    sampled = {one for group in groups for member in group.members for one in _versions(member.item)}
    with database.read() as conn:
        made_by = queries.made_by(conn, run, sampled)
    place = numbers.index(number) if number in numbers else 0
    end = start + PAGE_GROUPS
    return UpdatePage(
        run=run,
        update=number,
        version=found.version,
        made_by=made_by,
        parent=found.parent,
        weights_hash=found.weights_hash,
        checkpoint=found.checkpoint,
        created_at=found.created_at,
        metrics=found.metrics,
        groups=groups,
        total=len(batch),
        left_out=left_out,
        waiting=waiting,
        start=start,
        next_start=end if end < len(batch) else None,
        trajectories=len(found.members),
        tokens=sum(one.tokens_trained for one in found.members),
        components=component_metrics(found.metrics),
        previous=numbers[place - 1] if place else None,
        following=numbers[place + 1] if place + 1 < len(numbers) else None,
    )


def _versions(item: BatchMember) -> list[int]:
    return [one for one in (item.min_version, item.max_version) if one is not None]


def _trained(item: BatchMember, sources: Sequence[str]) -> TrainedMember:
    try:
        weights = importance_weights(decode_details(item.detail), sources) if item.detail else None
    except ValueError:  # another version of turnwise wrote it
        weights = None
    if weights is None or not weights.size:
        return TrainedMember(replace(item, detail=None), None, None)
    return TrainedMember(replace(item, detail=None), float(weights.mean()), float(weights.max()))
