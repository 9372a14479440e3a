"""Ask the group size whether a second stage adds members to a group whose members have all ended."""

from dataclasses import replace

from ...records import Group
from ...store.run_store import RunStore
from ..algorithms.curriculum.group_sizes.base import GroupSize
from .scoring import MIN_SURVIVORS, shape


async def grown(store: RunStore, group: Group, sizes: GroupSize) -> Group:
    """Return ``group`` with the size that it has after the second stage; its size now, if no member is added.

    The component reads the rewards of the environment. The reward shapers are called once, with all members of both
    stages, so a judge scores each episode once. A group with too few scored members fails, so it gets no second stage.
    """
    (loaded,) = await store.load([group.id], texts=sizes.needs_texts)
    scored, _ = shape(loaded, ())
    if len(scored.group.trajectories) < MIN_SURVIVORS:
        return group
    return replace(group, size=group.size + sizes.checked_additional(scored))
