"""Ask the group size whether a second stage adds members to a group whose members have all ended."""

from dataclasses import replace

from ...records import SCORED_STATUSES, Group
from ...store.run_store import RunStore
from ..algorithms.curriculum.group_sizes.base import GroupSize
from .scoring import MIN_SURVIVORS, shape


async def grown(store: RunStore, group: Group, sizes: GroupSize) -> Group:
    """Return ``group`` with the size that it has after the second stage; its size now, if no member is added.

    The component reads the rewards of the environment. The reward shapers are called once, with all members of both
    stages, so a judge scores each episode once. A group with too few scored members fails, so it gets no second stage.
    """
    (loaded,) = await store.load([group.id], texts=sizes.needs_texts)
    finished = replace(loaded, trajectories=[one for one in loaded.trajectories if one.status in SCORED_STATUSES])
    if len(finished.trajectories) < MIN_SURVIVORS:
        return group
    scored, _ = shape(finished, ())
    return replace(group, size=group.size + sizes.checked_additional(scored))
