"""The index of full-text search: FTS5 on SQLite, a tsvector with a GIN index on PostgreSQL.

Nothing is indexed while a run writes. A search first indexes the trajectories that ended since the search before, a
bounded number per call. The index holds no text, only the positions of words, and may be dropped at any time: the next
searches build it again. An entry is a turn, or the end of a trajectory: its final observation and its error.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BindParameter, Connection, and_, bindparam, column, func, insert, inspect, or_, select, table

from ...records import Status
from ..content.blob_root import SEARCH_INDEX, add_setting, change_setting, setting
from ..content.blobs import BlobStore
from ..database import Database
from ..operations.transaction import Transaction
from ..queries.search import END, TEXT_MAX, TURNS, Entry, excerpts
from ..schema import step, store_setting, trajectory
from ..schema.types import unescape

TABLE = "search_index"
TURNS_PER_SEARCH = 100_000

_CHUNK = 100
_CREATE = {
    "sqlite": [f"CREATE VIRTUAL TABLE IF NOT EXISTS {TABLE} USING fts5(words, content='')"],
    "postgresql": [
        f"CREATE TABLE IF NOT EXISTS {TABLE} (id BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
        f"CREATE INDEX IF NOT EXISTS ix_{TABLE}_words ON {TABLE} USING GIN (words)",
    ],
}
_ENTRIES = table(TABLE, column("rowid"), column("id"), column("words"))
_INSERT = {
    "sqlite": insert(_ENTRIES).values(rowid=bindparam("entry"), words=bindparam("text")),
    "postgresql": insert(_ENTRIES).values(id=bindparam("entry"), words=func.to_tsvector("simple", bindparam("text"))),
}
_AMONG: BindParameter[Any] = bindparam("nos", expanding=True)
_NEXT = (
    select(trajectory.c.no, trajectory.c.status)
    .where(trajectory.c.no > bindparam("after"))
    .order_by(trajectory.c.no)
    .limit(_CHUNK)
)
_ENDED = select(trajectory.c.no).where(trajectory.c.no.in_(_AMONG), trajectory.c.status != Status.RUNNING.value)
_HEADS = select(
    trajectory.c.no, trajectory.c.error, trajectory.c.final_observation, trajectory.c.final_observation_blob
).where(trajectory.c.no.in_(_AMONG))
_STEP_TEXTS = select(step.c.trajectory_no, step.c.idx, step.c.observation, step.c.observation_blob, step.c.action)
_STEPS = _STEP_TEXTS.where(step.c.trajectory_no.in_(_AMONG))


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A turn that matches a search, or the end of a trajectory."""

    trajectory: str
    run: str
    status: str
    turn: int | None
    """None for the final observation and the error."""
    field: str
    """The names of the texts that match."""
    text: str
    """The parts that match, on one line."""


@dataclass(slots=True)
class _State:
    """How far the index goes."""

    after: int = 0
    """Every trajectory up to this ``no`` is indexed, except for those in ``running``."""
    running: list[int] = field(default_factory=list)


def update_index(
    database: Database, *, limit: int = TURNS_PER_SEARCH, progress: Callable[[int], None] = lambda turns: None
) -> bool:
    """Index the trajectories that ended since the last call, and return whether all of them are indexed now.

    Args:
        limit: number of turns after which the call stops.
        progress: receives the number of turns that this call has indexed.
    """
    turns = 0
    _create(database)
    while turns < limit:
        with database.read() as conn:
            stored, state = _state(conn)
            ended = list(conn.execute(_ENDED, {"nos": state.running}).scalars())[:_CHUNK] if state.running else []
            new = conn.execute(_NEXT, {"after": state.after}).all()
            running = {row.no for row in new if row.status == Status.RUNNING.value}
            nos = ended + [row.no for row in new if row.no not in running]
            if not new and not ended:
                return True
            entries = _entries(conn, database.blobs, nos)
        left = sorted((set(state.running) | running) - set(ended))
        with database.transaction() as tx:
            if _write(tx, stored, _State(new[-1].no if new else state.after, left), entries):
                progress(turns := turns + len(entries))
    return False


def drop_index(database: Database) -> None:
    """Remove the index and its pages; the next search builds it again."""
    with database.transaction() as tx:
        tx.conn.exec_driver_sql(f"DROP TABLE IF EXISTS {TABLE}")
        tx.conn.execute(store_setting.delete().where(store_setting.c.name == SEARCH_INDEX))


def clean(words: str) -> str:
    """Return a text that both databases accept: without NUL and lone surrogates, at most ``TEXT_MAX`` bytes."""
    return words[:TEXT_MAX].replace("\x00", " ").encode(errors="ignore")[:TEXT_MAX].decode(errors="ignore")


def content_of(conn: Connection, blobs: BlobStore, row: Any, column: str) -> str:
    """Return the text in ``column`` of a row or, if it is long, in a blob; empty if retention removed it."""
    name = row._mapping[f"{column}_blob"]
    if name is None:
        return row._mapping[column] or ""
    return unescape(blobs.get_unchecked(conn, [name])[name].decode(errors="replace"))


def texts_of(conn: Connection, blobs: BlobStore, entries: Sequence[Entry]) -> list[dict[str, str]]:
    """Return the texts of each entry by their names; those that retention removed are empty."""
    turns = [and_(step.c.trajectory_no == one.no, step.c.idx == one.turn) for one in entries if one.turn != END]
    # With the pairs as one list of values, SQLite reads the whole table.
    parts = (or_(*turns[start : start + _CHUNK]) for start in range(0, len(turns), _CHUNK))
    rows = (row for part in parts for row in conn.execute(_STEP_TEXTS.where(part)))
    steps = {(row.trajectory_no, row.idx): row for row in rows}
    ends = {row.no: row for row in conn.execute(_HEADS, {"nos": [one.no for one in entries if one.turn == END]})}

    def texts(entry: Entry) -> dict[str, str]:
        if entry.turn == END:
            end = ends[entry.no]
            return {"error": end.error, "final observation": content_of(conn, blobs, end, "final_observation")}
        turn = steps.get((entry.no, entry.turn))
        if turn is None:
            return {}
        return {"action": turn.action, "observation": content_of(conn, blobs, turn, "observation")}

    return [texts(entry) for entry in entries]


def hits_of(conn: Connection, blobs: BlobStore, entries: Sequence[Entry], terms: Sequence[str]) -> list[SearchHit]:
    """Return entries with the parts of their texts in which ``terms`` occur."""
    return [_hit(entry, of, terms) for entry, of in zip(entries, texts_of(conn, blobs, entries), strict=True)]


def _hit(entry: Entry, of_entry: Mapping[str, str], terms: Sequence[str]) -> SearchHit:
    texts = {name: content for name, content in of_entry.items() if content}
    found = excerpts(texts, terms)
    # The index also finds other spellings, such as `cafe` for `café`: then a text is shown from its beginning.
    found = found or {name: " ".join(content[:1_000].split())[:100] for name, content in list(texts.items())[:1]}
    return SearchHit(
        entry.trajectory,
        entry.run,
        entry.status,
        None if entry.turn == END else entry.turn,
        ", ".join(found),
        " | ".join(found.values()) or "(removed by retention)",
    )


def unindexed(conn: Connection) -> int | None:
    """Return how many ended trajectories the index lacks; None if the store has no index."""
    if not inspect(conn).has_table(TABLE):
        return None
    _, state = _state(conn)
    ended = select(func.count()).where(trajectory.c.status != Status.RUNNING.value)
    new = conn.execute(ended.where(trajectory.c.no > state.after)).scalar_one()
    return new + (conn.execute(ended.where(trajectory.c.no.in_(state.running))).scalar_one() if state.running else 0)


def _create(database: Database) -> None:
    with database.read() as conn:
        if inspect(conn).has_table(TABLE):
            return
    with database.transaction() as tx:
        for statement in _CREATE[tx.conn.dialect.name]:
            tx.conn.exec_driver_sql(statement)


def _state(conn: Connection, *, lock: bool = False) -> tuple[str | None, _State]:
    """Return the stored state as text and as a value."""
    stored = setting(conn, SEARCH_INDEX, lock=lock)
    return stored, _State() if stored is None else _State(**json.loads(stored))


def _entries(conn: Connection, blobs: BlobStore, nos: list[int]) -> list[dict[str, Any]]:
    """Return the entries of trajectories: their ids and their words."""
    found = [
        (row.no, END, [content_of(conn, blobs, row, "final_observation"), row.error])
        for row in conn.execute(_HEADS, {"nos": nos}).all()
    ]
    found += [
        (row.trajectory_no, row.idx, [content_of(conn, blobs, row, "observation"), row.action])
        for row in conn.execute(_STEPS, {"nos": nos}).all()
    ]
    return [
        {"entry": no * TURNS + idx, "text": "\n".join(clean(part) for part in parts)}
        for no, idx, parts in found
        if any(parts)
    ]


def _write(tx: Transaction, before: str | None, state: _State, entries: list[dict[str, Any]]) -> bool:
    """Add entries and the new state; False if another search has changed the index since ``before`` was read."""
    dialect = tx.conn.dialect.name
    value = json.dumps({"after": state.after, "running": state.running})
    if before is None:
        if not add_setting(tx.conn, SEARCH_INDEX, value):
            return False
    elif _state(tx.conn, lock=True)[0] != before:
        return False
    else:
        change_setting(tx.conn, SEARCH_INDEX, value)
    if entries:
        tx.conn.execute(_INSERT[dialect], entries)
    return True
