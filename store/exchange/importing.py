"""Store imported episodes as those of an expert, in a run of kind ``import``.

An imported trajectory never has another run's name: its ids begin with the name of its own run. Tokens that a policy
sampled become tokens of the expert, without log-probability and version, because no policy of this store sampled them.
The uid of a policy's trajectory therefore changes, always to the same one, and a trajectory whose uid the store has is
not stored again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from sqlalchemy import Connection, select

from ...records import NO_VERSION, GroupState, Message, Purpose, Role, Source, Task, Trajectory
from .. import operations
from ..content.blobs import PNG, NewBlob
from ..content.rows import Written, by_idx, rows_of
from ..database import Database
from ..errors import ExchangeError
from ..operations.group_states import IMPORTED
from ..run_lock import hold_evaluation
from ..schema import among
from ..schema import run as run_table
from ..schema import task as task_table
from ..schema import trajectory as trajectory_table
from .checks import check
from .episodes import CHUNK, Episode

KIND = "import"
"""The kind of a run that holds imported trajectories."""
_COPY = "turnwise: the trajectory of a policy, as an expert's"

TaskId = Callable[[Task], str]
"""Returns the id of a task, the hash of its other fields."""
Encode = Callable[[Episode], Trajectory]
"""Returns a trajectory with the messages of its turns."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Counts of an import."""

    run: str
    added: int
    skipped: int
    """Trajectories that the store had already."""


def import_episodes(
    database: Database,
    run: str,
    episodes: Iterable[Episode],
    *,
    config: Mapping[str, Any],
    code_version: str,
    task_id: TaskId,
    encode: Encode | None = None,
) -> Imported:
    """Store ``episodes`` in the run ``run``, and return the counts. A repeated import adds nothing, and no run.

    Args:
        config: the values that identify the import, for the run's row.
        task_id: returns the id of a task.
        encode: adds the tokens of an episode that has none; None stores texts only.

    Raises:
        ExchangeError: an episode cannot be stored, or another run has the name ``run``.
        RunHeld: another process imports into the run.
        StoreFull: the disk is full.
    """
    config_hash = sha256(json.dumps(dict(config), sort_keys=True).encode()).hexdigest()
    added = skipped = 0
    with hold_evaluation(database, run):
        status = _status(database, run, config_hash)
        begun = status is not None and status != "finished"
        try:
            for episode, is_stored in _marked(database, episodes):
                if is_stored:
                    skipped += 1
                    continue
                made = as_expert(episode, run, task_id, encode)
                if not begun:
                    _begin(database, run, config, config_hash, code_version)
                    begun = True
                _store(database, made)
                added += 1
        except BaseException as error:
            if begun:
                _finish(database, run, "failed", f"{type(error).__name__}: {error}"[:4000])
            raise
        if begun:
            _finish(database, run, "finished")
    return Imported(run, added, skipped)


def as_expert(episode: Episode, run: str, task_id: TaskId, encode: Encode | None) -> Episode:
    """Return a checked episode as an expert's in the run ``run``, alone in its group.

    Raises:
        ExchangeError: the episode has not ended, its parts do not fit together, or an image is missing.
    """
    one = episode.trajectory
    check(episode)
    uid = copy_uid(episode)
    task = replace(episode.group.task, id="")
    group = replace(
        episode.group,
        id=f"{run}:{uid.hex}",
        run=run,
        task=replace(task, id=task_id(task)),
        size=1,
        purpose=Purpose.EVAL,
        state=GroupState.OPEN,
        trajectories=(),
    )
    imported = replace(
        one,
        id=f"{group.id}-0",
        run=run,
        group=group.id,
        member=0,
        attempt=0,
        uid=uid,
        source=Source.EXPERT,
        policy=one.policy or one.run,
        branched_from=None,
        branched_at=None,
        messages=tuple(map(as_expert_message, one.messages)),
    )
    if encode is not None and not imported.messages:
        imported = encode(replace(episode, group=group, trajectory=imported))
    return replace(episode, group=group, trajectory=imported)


def as_expert_message(message: Message) -> Message:
    """Return a message of which no policy of this store sampled a token."""
    size = len(message.tokens)
    written = message.role is Role.ASSISTANT and message.source is Source.POLICY
    return replace(
        message,
        source=Source.EXPERT if written else message.source,
        mask=np.zeros(size, np.uint8),
        logprobs=np.full(size, np.nan, np.float32),
        versions=np.full(size, NO_VERSION, np.int32),
    )


def copy_uid(episode: Episode) -> UUID:
    """Return the uid of the imported episode: its own if it is an expert's, which the import does not change."""
    uid = episode.trajectory.uid
    if uid is None:
        raise ExchangeError(f"trajectory {episode.trajectory.id!r} has no uid")
    return uid if episode.trajectory.source is Source.EXPERT else uuid5(uid, _COPY)


def _status(database: Database, run: str, config_hash: str) -> str | None:
    """Return the status of the run of this import; None if no run has its name. Raises ExchangeError."""
    columns = select(run_table.c.kind, run_table.c.status, run_table.c.config_hash).where(run_table.c.id == run)
    with database.read() as conn:
        row = conn.execute(columns).one_or_none()
    if row is None:
        return None
    if row.kind != KIND or row.config_hash != config_hash:
        kind = "the import of other files" if row.kind == KIND else f"of kind `{row.kind}`"
        raise ExchangeError(f"the store has a run `{run}`, which is {kind}: choose another name with `--run`")
    return str(row.status)


def _begin(database: Database, run: str, config: Mapping[str, Any], config_hash: str, code_version: str) -> None:
    with database.transaction() as tx:
        operations.create_run(tx, run=run, config=config, config_hash=config_hash, kind=KIND, code_version=code_version)


def _finish(database: Database, run: str, status: str, error: str = "") -> None:
    with database.transaction() as tx:
        operations.finish_run(tx, run=run, status=status, error=error)


def _marked(database: Database, episodes: Iterable[Episode]) -> Iterator[tuple[Episode, bool]]:
    """Yield each episode, and whether the store has it already."""
    remaining = iter(episodes)
    while chunk := list(islice(remaining, CHUNK)):
        uids = [copy_uid(one) for one in chunk]
        with database.read() as conn:
            column = trajectory_table.c.uid
            stored = {uid for (uid,) in among(conn, select(column), column, uids)}
        for episode, uid in zip(chunk, uids, strict=True):
            yield episode, uid in stored
            stored.add(uid)


def _store(database: Database, episode: Episode) -> None:
    """Store one episode in one transaction; its large content is staged before. Raises ExchangeError."""
    one = episode.trajectory
    named = {name for step in one.steps for name in (*step.images, step.screenshot) if name}
    named |= {name for message in one.messages for name in message.images}
    try:
        writes = [write.staged(database.blobs) for write in _writes(episode, named)]
        with database.transaction() as tx:
            operations.open_group(tx, group=episode.group)
            _check_task(tx.conn, episode.group.task)
            operations.run_writes(tx, writes)
            operations.close_group(tx, group=episode.group.id, state=GroupState.FILTERED, reason=IMPORTED)
    except (ValueError, OverflowError) as error:
        raise ExchangeError(f"trajectory {one.id!r} cannot be stored: {error}") from error


def _writes(episode: Episode, images: Iterable[str]) -> list[operations.Write[None]]:
    one = episode.trajectory
    rows = rows_of(one.steps, one.messages, {name: episode.images[name] for name in images})
    final = by_idx(one.final_images, one.final_screenshot)
    written = Written()
    written.add(rows)
    return [
        operations.start_trajectory.bind(trajectory=one),
        operations.append.bind(trajectory=one.id, rows=rows),
        operations.finish_trajectory.bind(
            trajectory=one.id,
            status=one.status,
            reward=one.reward,
            success=one.success,
            error=one.error,
            stop_reason=one.stop_reason,
            reached=one.reached,
            final_observation_hash=one.final_observation_hash,
            final_observation=episode.final_observation,
            final_images={idx: NewBlob.of(episode.images[name], PNG) for idx, name in final.items()},
            extras=one.extras,
            tally=written.tally(final),
        ),
    ]


def _check_task(conn: Connection, task: Task) -> None:
    stored = conn.execute(select(task_table).where(task_table.c.id == task.id)).mappings().one()
    if any(stored[name] != getattr(task, name) for name in ("env_id", "env_version", "seed", "split", "options")):
        raise ExchangeError(f"the store has another task with the id {task.id!r}")
