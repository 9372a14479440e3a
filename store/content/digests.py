"""Digests of what is stored, so that an altered, exchanged or deleted row is found.

* Each step has a digest of its columns, which include its messages, and of its images. A partial turn has one, too.
* A trajectory has a content digest, of the digests of its steps and partial turns and of the images of its messages,
  and a head digest, of the content digest, its own columns and those of its group that shaped the episode. A running
  trajectory has no content digest yet.
* A reward and a batch have one digest each; the batch's covers its groups and items.
* ``digest`` of a row of another table covers all of its columns but those that ``SEALED`` leaves out. Every write of
  such a table goes through ``sealed`` (new rows) or ``change`` (stored rows).
* A row that no digest covers as a part counts in another row: ``COUNTED`` names the column that has the number, and
  every write that adds such a row goes through ``count_rows``.

The digests are computed before the rows are stored, and compared with the rows when a trajectory is loaded and by
``turnwise db check``. Both use the functions of this module: values are written as canonical JSON, with numbers up to
2⁵³ as floats, because JSONB keeps neither the order of keys nor the notation of a number.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from operator import itemgetter
from types import MappingProxyType
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, Column, ColumnElement, Connection, Integer, Table, and_, bindparam, select, update

from ..schema import (
    Lookup,
    lease,
    message_image,
    metric,
    partial_turn,
    policy_version,
    reward_set,
    rollout_group,
    run,
    step,
    step_image,
    store_setting,
    task,
    train_batch,
    trajectory,
)
from ..schema.types import load_json, time_text

ROW_BYTES = 8
"""Bytes of the digest of a step or partial turn."""
_APART = ("trajectory_no", "messages", "digest")
_STEP, _PARTIAL = (tuple(c.name for c in table.c if c.name not in _APART) for table in (step, partial_turn))
_MESSAGE_IMAGE = tuple(c.name for c in message_image.c if c.name != "trajectory_no")
_STEP_IMAGE = tuple(c.name for c in step_image.c if c.name not in ("trajectory_no", "step_idx"))


def canonical(values: Iterable[Any]) -> str:
    """Return values as JSON in one notation: keys sorted, times as ``types.time_text`` writes them, bytes and UUIDs
    in hex.

    The numbers of a document (a mapping or sequence) are written as floats, above 2⁵³ as whole numbers; those of a
    column keep its type. A negative zero is written as 0.0, because SQLite stores it so.
    """
    return _ENCODER.encode([value if type(value) in _SCALARS else _value(value) for value in values])


def digest_of(values: Iterable[Any]) -> str:
    """Return the digest of values: the SHA-256, in hex, of their canonical form."""
    return sha256(canonical(values).encode()).hexdigest()


def row_digest(row: Mapping[Any, Any], columns: Sequence[str]) -> str:
    """Return the digest of ``columns`` of a row; a missing column counts as None."""
    return digest_of(row.get(name) for name in columns)


def step_digest(row: Mapping[Any, Any], images: Iterable[Mapping[Any, Any]]) -> str:
    """Return the digest of a row of ``step`` with its messages, and of its rows of ``step_image``."""
    values = [row.get(name) for name in _STEP]
    values += [image.get(name) for image in images for name in _STEP_IMAGE]
    return _row_digest(values, row["messages"])


def partial_turn_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of a row of ``partial_turn`` with its messages."""
    return _row_digest([row.get(name) for name in _PARTIAL], row["messages"])


def content_digest(
    steps: Mapping[int, str],
    partial: Mapping[int, str],
    message_images: Iterable[Mapping[Any, Any]] = (),
    final_images: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return the content digest of a trajectory.

    Args:
        steps: the digests of its steps by ``idx``.
        partial: the digests of its partial turns by ``idx``.
        message_images: its rows of ``message_image``, in the order of their messages.
        final_images: the hashes of the images of the end by ``idx``.
    """
    parts = [[[idx, rows[idx]] for idx in sorted(rows)] for rows in (steps, partial, final_images)]
    shown = [[image.get(name) for name in _MESSAGE_IMAGE] for image in message_images]
    return digest_of([*parts, shown])


def _row_digest(values: Sequence[Any], messages: bytes | None) -> str:
    return sha256(canonical(values).encode() + b"\n" + (messages or b"")).digest()[:ROW_BYTES].hex()


def _value(value: Any) -> Any:
    return value + 0.0 if type(value) is float else _document(value)


def _document(value: Any) -> Any:
    if isinstance(value, dict | Mapping):
        return {str(key): _document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_document(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value)
    return _document(value.tolist()) if hasattr(value, "tolist") else value


def _text(value: Any) -> str:
    """Return a value that JSON does not have as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, UUID):
        return value.hex
    raise TypeError(f"{value!r} ({type(value).__name__}) has no digest")


def _number(value: float) -> float | str | None:
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(int(value))
    number = float(value) + 0.0
    if number - number != 0:
        return None
    return number if abs(number) <= _EXACT else str(int(Decimal(repr(number))))


_EXACT = 2**53
"""Above this number a float is whole. JSONB returns its decimal digits, as an integer."""
_SCALARS = frozenset({str, int, bool, type(None), bytes, datetime, UUID})
"""Types of columns whose values are written as they are."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text, check_circular=False)
"""Made once: ``json.dumps`` makes an encoder per call."""


BEGUN = (
    *("no", "uid", "id", "run_no", "group_no", "member", "attempt", "writer", "status", "env_id", "purpose", "source"),
    *("policy", "deterministic", "branched_from", "branched_at", "created_at"),
)
"""The columns of a trajectory that its start writes, and its status; its end writes the others."""
HEAD_COLUMNS = tuple(column.name for column in trajectory.c if column.name not in ("no", "abandoned", "digest"))
"""The columns of a trajectory that its head digest covers: all but the flag of its newest version."""
_UNENDED: dict[str, Any] = dict.fromkeys(name for name in HEAD_COLUMNS if name not in BEGUN) | {
    **{"reward": 0.0, "n_steps": 0, "n_tokens": 0, "error": "", "stop_reason": "", "reached": "", "ended_by": ""},
    "extras": {},
}
"""The values of the columns that the end of a trajectory writes, while it runs."""
_running_values = itemgetter(*map((*BEGUN[1:], *_UNENDED).index, HEAD_COLUMNS))
GROUP_COLUMNS = (
    *(rollout_group.c[name].label(f"group_{name}") for name in ("id", "purpose", "prompt_prefix")),
    *(rollout_group.c[name] for name in ("max_turns", "max_tokens_per_turn", "max_tokens_per_episode", "max_context")),
    rollout_group.c.created_at.label("group_created_at"),
    *(task.c[name].label(f"task_{name}") for name in ("id", "env_version", "seed", "split", "options")),
)
"""The columns of a trajectory's group that its head digest covers."""
HEADS = (
    select(trajectory, *GROUP_COLUMNS)
    .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
    .join(task, task.c.no == rollout_group.c.task_no)
)
"""Trajectories with the columns of their group that their head digest covers."""
_CIRCUMSTANCE_NAMES = tuple(column.name for column in GROUP_COLUMNS)
_CIRCUMSTANCES = Lookup(
    select(rollout_group.c.no.label("group_no"), *GROUP_COLUMNS).join_from(rollout_group, task), rollout_group.c.no
)
_values, _circumstances = itemgetter(*HEAD_COLUMNS), itemgetter(*_CIRCUMSTANCE_NAMES)


def circumstances_digest(row: Mapping[Any, Any]) -> str:
    """Return the digest of ``GROUP_COLUMNS`` of a row."""
    return digest_of(_circumstances(row))


def head_digest(row: Mapping[Any, Any], circumstances: str | None = None) -> str:
    """Return the head digest of a trajectory: of its row with ``GROUP_COLUMNS``, or with the digest of these."""
    return digest_of([*_values(row), circumstances or circumstances_digest(row)])


def running_digest(begun: Iterable[Any], circumstances: str) -> str:
    """Return the head digest of a running trajectory, by the values of ``BEGUN`` except ``no``."""
    return digest_of([*_running_values((*begun, *_UNENDED.values())), circumstances])


def stored_circumstances(conn: Connection, groups: Collection[int]) -> dict[int, str]:
    """Return the digests of ``GROUP_COLUMNS`` of stored groups, by ``no``."""
    found = {}
    for no, *values in _CIRCUMSTANCES.run(conn, groups):
        row = dict(zip(_CIRCUMSTANCE_NAMES, values, strict=True))
        row["group_created_at"] = stored_time(row["group_created_at"])
        if isinstance(options := row["task_options"], str):
            row["task_options"] = load_json(options)
        found[no] = circumstances_digest(row)
    return found


def stored_time(value: str | datetime) -> str:
    """Return the driver's value of a time as ``time_text`` writes it."""
    return f"{value}+00:00" if isinstance(value, str) else time_text(value)


COUNTED: Mapping[Table, Column[Any]] = {
    rollout_group: run.c.n_groups,
    policy_version: run.c.n_versions,
    train_batch: run.c.n_batches,
    lease: run.c.n_leases,
    metric: run.c.n_metrics,
    reward_set: run.c.n_reward_sets,
}
"""The column of ``run`` that has the number of the run's rows of a table."""
_COUNTS = tuple(column.name for column in COUNTED.values())
SEALED: Mapping[Table, tuple[str, ...]] = {
    table: tuple(column.name for column in table.c if column.name not in ("digest", *left_out))
    for table, left_out in {
        run: ("no", *_COUNTS),
        task: ("no",),
        rollout_group: ("no",),
        lease: (),
        policy_version: (),
        metric: (),
        reward_set: ("n_rewards",),
        store_setting: (),
    }.items()
}
"""The columns that the digest of a row covers. Rows of other tables confirm a ``no`` that it leaves out."""
UNSEALED = "00" * 32
"""The digest of a row whose ``no`` the database has yet to give; ``change`` replaces it in the same transaction."""


def seal(table: Table, row: Mapping[Any, Any]) -> str:
    """Return the digest of a row, which has every column that the digest covers."""
    return row_digest(row, SEALED[table])


def sealed(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new row with the values that the database would give to its other columns, and with its digest."""
    return {**row, "digest": seal(table, {**_defaults(table), **row})}


@cache
def _defaults(table: Table) -> dict[str, Any]:
    """Return the values that the database gives to the sealed columns of a row that names none."""
    return {name: _default(table.c[name]) for name in SEALED[table]}


def _default(column: Column[Any]) -> Any:
    if column.server_default is None:
        return None
    if isinstance(column.type, Boolean):
        return False
    text = str(column.server_default.arg)  # type: ignore[attr-defined]
    return int(text) if isinstance(column.type, Integer) else text


def change(conn: Connection, table: Table, where: ColumnElement[bool], **values: Any) -> int:
    """Set columns of the stored rows that fulfil a condition, with their digests, and return how many rows those are.

    The rows are locked until the transaction ends.
    """
    rows = conn.execute(select(table).where(where).with_for_update(key_share=True)).mappings().all()
    write_changes(conn, table, [(row, values) for row in rows])
    return len(rows)


def write_changes(
    conn: Connection, table: Table, changes: Sequence[tuple[Mapping[Any, Any], Mapping[str, Any]]]
) -> None:
    """Set columns of rows, with their digests.

    Args:
        changes: the stored and locked rows, each with its new values; those of all rows have the same columns.
    """
    if not changes:
        return
    keys = list(table.primary_key.columns)
    parameters = [
        {
            **{f"key_{column.name}": row[column.name] for column in keys},
            **values,
            "digest": seal(table, {**row, **values}),
        }
        for row, values in changes
    ]
    which = and_(*(column == bindparam(f"key_{column.name}") for column in keys))
    names = (*changes[0][1], "digest")
    conn.execute(update(table).where(which).values({name: bindparam(name) for name in names}), parameters)


def count_rows(conn: Connection, table: Table, run_no: int, added: int = 1) -> None:
    """Add to the number of rows of ``table`` that a run has."""
    column = COUNTED[table]
    conn.execute(update(run).where(run.c.no == run_no).values({column: column + added}))
