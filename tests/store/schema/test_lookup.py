"""A lookup finds the rows of any number of values, on both engines."""

from datetime import UTC, datetime

from sqlalchemy import select
from turnwise.store.database import Database
from turnwise.store.operations.groups import Opening, open_group
from turnwise.store.schema import Lookup, rollout_group
from turnwise.store.schema.types import time_text
from turnwise.tests.store.making import call, create_run, group

NAMES = ['a"b', "a'b,", "é\U0001f600", *(f"g{number:04d}" for number in range(1200))]


def test_the_rows_of_many_values_are_found(database: Database) -> None:
    create_run(database)
    with database.transaction() as tx:
        open_group.run(tx, [Opening(group(name)) for name in NAMES])
    columns = (rollout_group.c.id, rollout_group.c.no, rollout_group.c.created_at)
    by_name = Lookup(select(*columns), rollout_group.c.id)
    by_no = Lookup(select(*columns).order_by(rollout_group.c.no), rollout_group.c.no)
    with database.read() as conn:
        assert {row.id for row in by_name.run(conn, [*NAMES, "none"])} == set(NAMES)
        assert by_name.run(conn, []) == []
        found = by_name.run(conn, NAMES[:2])
        assert [row.id for row in by_no.run(conn, {row.no for row in found})] == NAMES[:2]
        plain = by_name.run(conn, NAMES[:1])[0].created_at
        converted = conn.execute(select(*columns).where(rollout_group.c.id == NAMES[0])).one().created_at
    assert isinstance(converted, datetime)
    assert (f"{plain}+00:00" if isinstance(plain, str) else time_text(plain)) == time_text(converted)
    assert converted.tzinfo is UTC


def test_a_batch_of_groups_may_be_repeated_in_part(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group("g1", seed=1))
    with database.transaction() as tx:
        open_group.run(tx, [Opening(group("g1", seed=1)), Opening(group("g2", seed=1)), Opening(group("g3", seed=2))])
    with database.read() as conn:
        names = conn.execute(select(rollout_group.c.id).order_by(rollout_group.c.no)).scalars().all()
    assert names == ["g1", "g2", "g3"]
