"""Words that no program writes: the columns with a vocabulary have no CHECK constraint."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, Connection, select

from ....records import SPLITS, EndedBy, GroupState, Purpose, Source, Status
from ...content.blob_root import NAMES
from ...content.blobs import IN_DATABASE, IN_FOLDER, MESSAGES, PNG, TEXT, ZLIB
from ...schema import blob, lease, rollout_group, run, store_setting, task, trajectory
from .finding import Finding, Progress, findings, key_columns


def _words(vocabulary: type[StrEnum]) -> list[str]:
    return [word.value for word in vocabulary]


VOCABULARIES: Mapping[Column[Any], Collection[str]] = {
    run.c.kind: ("train", "eval", "import", "score", "replay"),
    run.c.status: ("running", "finished", "failed", "stopped"),
    rollout_group.c.purpose: _words(Purpose),
    rollout_group.c.state: _words(GroupState),
    trajectory.c.status: _words(Status),
    trajectory.c.purpose: _words(Purpose),
    trajectory.c.ended_by: ["", *_words(EndedBy)],
    trajectory.c.source: _words(Source),
    task.c.split: SPLITS,
    lease.c.outcome: ("", "consumed", "released", "expired", "overdue", "resumed"),
    blob.c.location: (IN_DATABASE, IN_FOLDER),
    blob.c.encoding: ("", ZLIB),
    blob.c.media_type: (TEXT, PNG, MESSAGES),
    store_setting.c.name: NAMES,
}


def check_vocabularies(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per word that is not in the vocabulary of its column."""
    for done, (column, words) in enumerate(VOCABULARIES.items()):
        progress("vocabularies", done, len(VOCABULARIES))
        table = column.table
        statement = select(*key_columns(table), column.label("word")).where(column.not_in(words))
        allowed = ", ".join(word or "(empty)" for word in words)
        yield from findings(
            conn,
            table,
            statement,
            column.name,
            f"is {{word!r}}; it must be one of {allowed}",
        )
