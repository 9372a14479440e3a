"""Episodes as export and import exchange them: a trajectory with its group, its final observation and its images."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ...records import Group, Status, Trajectory
from .. import queries
from ..database import Database
from ..queries.load import load_trajectories

PAGE = 1000
"""Ids per page of a selection."""
CHUNK = 16
"""Trajectories that are loaded together."""
ENDED = [status.value for status in Status if status is not Status.RUNNING]


@dataclass(frozen=True, slots=True)
class Episode:
    """One trajectory and the parts of the store that it refers to."""

    group: Group
    """The group without its trajectories: task, horizon, prompt prefix."""
    trajectory: Trajectory
    final_observation: str | None = None
    images: Mapping[str, bytes] = field(default_factory=dict)
    """Content of the images that the trajectory names, by hash."""

    @property
    def uid(self) -> str:
        """The id that no trajectory of another store has."""
        return str(self.trajectory.uid)


def selected_ids(
    database: Database, *, limit: int | None = None, pruned: Callable[[int], None] = lambda count: None, **filters: Any
) -> Iterator[str]:
    """Yield the ids of the trajectories that ended, survive and have their content, oldest first.

    Args:
        limit: the maximum number of ids.
        pruned: receives numbers of trajectories that are left out because retention removed their content.
        filters: as in ``queries.list_trajectories``.

    Raises:
        StoreError: a filter is unknown.
    """
    chosen: dict[str, Any] = {"status": ENDED, "abandoned": False} | {
        name: one for name, one in filters.items() if one is not None
    }
    after, left = None, limit
    while left is None or left > 0:
        page = PAGE if left is None else min(PAGE, left)
        with database.read() as conn:
            rows = queries.list_trajectories(conn, descending=False, limit=page, after=after, **chosen)
        whole = [row.id for row in rows if row.pruned_at is None]
        pruned(len(rows) - len(whole))
        yield from whole
        if len(rows) < page:
            return
        after = rows[-1].id
        left = None if left is None else left - len(whole)


def read_episodes(database: Database, ids: Iterable[str], *, images: bool = True) -> Iterator[Episode]:
    """Yield the episodes of ``ids`` in their order, ``CHUNK`` in memory at a time.

    Args:
        images: whether to read the content of the images.

    Raises:
        NotFound: a trajectory is not in the store.
        StepCorrupt: stored content was altered.
        BlobMissing: content is missing.
    """
    remaining = iter(ids)
    while chunk := list(islice(remaining, CHUNK)):
        yield from _read(database, chunk, images)


def image_hashes(trajectory: Trajectory) -> list[str]:
    """Return the hashes of the images of a trajectory, each once, in the order of its turns."""
    steps = [image for step in trajectory.steps for image in step.images]
    messages = [image for message in trajectory.messages for image in message.images]
    kept = [name for name in (*(step.screenshot for step in trajectory.steps), trajectory.final_screenshot) if name]
    return list(dict.fromkeys([*steps, *messages, *trajectory.final_images, *kept]))


def _read(database: Database, ids: Sequence[str], images: bool) -> list[Episode]:
    loaded = load_trajectories(database, ids, texts=True)
    last = {one.id: queries.final_observation(database, one.id) for one in loaded}
    with database.read() as conn:
        heads = {group.id: group for group in queries.load_group_heads(conn, list({one.group for one in loaded}))}
        if not images:
            loaded = [_without_screenshots(one) for one in loaded]
        content = [database.blobs.get_many(conn, image_hashes(one)) if images else {} for one in loaded]
    return [Episode(heads[one.group], one, last[one.id], data) for one, data in zip(loaded, content, strict=True)]


def _without_screenshots(one: Trajectory) -> Trajectory:
    """Return a trajectory without what no policy read: unlike one with images, its import needs no content of them."""
    return replace(one, final_screenshot="", steps=tuple(replace(step, screenshot="") for step in one.steps))
