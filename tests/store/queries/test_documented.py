"""The queries of docs/store.md return the right rows of a filled store, on both databases."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from turnwise.records import GroupState, Status
from turnwise.store.database import Database
from turnwise.store.operations import BatchItem
from turnwise.tests.store.making import call, create_run, group, play, play_scored, train

RUN = "quickstart"
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "store.md").read_text()
QUERIES = dict(re.findall(r"^([^\n]+):\n\n```sql\n(.*?);\n```$", PAGE, re.MULTILINE | re.DOTALL))


def second_update(database: Database) -> None:
    """Train on group 1 of task 1, one of whose two members failed at its task, with a staleness of 1 and 0 versions."""
    call(database, "open_group", group=group(f"{RUN}:1", RUN, seed=1))
    for member, status in enumerate((Status.COMPLETED, Status.TRUNCATED)):
        play(database, f"{RUN}:1-{member}", f"{RUN}:1", member, turns=1, version=member, status=status, run=RUN)
    call(database, "close_group", group=f"{RUN}:1", state=GroupState.READY)
    call(database, "lease_groups", run=RUN, owner="learner", count=1, timeout_s=60)
    items = [BatchItem(f"{RUN}:1-0", 2, 1, 0.5), BatchItem(f"{RUN}:1-1", 3, 0, -0.5)]
    learner = {"run": RUN, "owner": "learner", "groups": [f"{RUN}:1"], "metrics": {}}
    call(database, "acknowledge", update=2, parent=1, items=items, **learner)


@pytest.fixture
def filled(database: Database) -> Database:
    """Return a store with two updates and a failed group."""
    create_run(database, RUN)
    call(database, "add_version", run=RUN, update=0, parent=None)
    play_scored(database, f"{RUN}:0", 0, [0.0, 1.0], run=RUN, seed=0, verdicts=[True, True])
    train(database, [f"{RUN}:0"], 1, 0, run=RUN)
    second_update(database)
    call(database, "open_group", group=group(f"{RUN}:2", RUN, seed=1))
    play(database, f"{RUN}:2-0", f"{RUN}:2", 0, turns=3, version=2, status=Status.ENV_ERROR, run=RUN)
    play(database, f"{RUN}:2-1", f"{RUN}:2", 1, turns=1, version=2, status=Status.TRUNCATED, run=RUN)
    call(database, "close_group", group=f"{RUN}:2", state=GroupState.FAILED, reason="too few members")
    return database


def answer(database: Database, beginning: str) -> list[tuple[Any, ...]]:
    """Return the rows of the query whose sentence begins so, as the page shows the query."""
    (query,) = [sql for sentence, sql in QUERIES.items() if sentence.startswith(beginning)]
    with database.read() as conn:
        rows = conn.execute(text(query)).all()
    return [tuple(float(one) if isinstance(one, Decimal) else one for one in row) for row in rows]


def test_every_query_of_the_page_is_read() -> None:
    assert len(QUERIES) == PAGE.count("```sql\n") == 2


def test_updates(filled: Database) -> None:
    assert answer(filled, "The trajectories") == [(f"{RUN}:1-0", 2, 1, 0.5), (f"{RUN}:1-1", 3, 0, -0.5)]
    assert answer(filled, "Per update, the success rate") == [(1, 2, 1.0, 1.0), (2, 2, 0.5, 1.0)]
