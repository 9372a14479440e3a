"""Digests tell numbers apart, and read them in the notation of either database."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update
from turnwise.records import Status
from turnwise.store.content.digests import digest_of
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database
from turnwise.store.errors import StepCorrupt
from turnwise.store.queries import load_trajectory
from turnwise.store.schema import trajectory as trajectory_table
from turnwise.tests.store.making import call, create_run, group, records, trajectory

NUMBERS = [2**53 + 1, -(2**70), 10**400, 1e22, 1.2345678901234567e30, -1e308, 2.0**53, 5e-324, 0.1, -0.0]


def test_every_number_keeps_its_digest_in_the_database_and_an_altered_one_is_found(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    steps, messages = records(0)
    call(database, "append", trajectory="t", rows=rows_of([replace(steps[0], reward=-0.0, env_ms=-0.0)], messages))
    end: dict[str, Any] = {"status": Status.COMPLETED, "reward": -0.0, "extras": {"numbers": NUMBERS}}
    call(database, "finish_trajectory", trajectory="t", **end)
    assert load_trajectory(database, "t").extras["numbers"][0] == NUMBERS[0]
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory_table).values(extras={"numbers": [2**53, *NUMBERS[1:]]}))
    with pytest.raises(StepCorrupt):
        load_trajectory(database, "t")


def test_numbers_that_a_float_cannot_tell_apart_have_other_digests() -> None:
    near = [2**53 + n for n in range(-2, 3)] + [10**400, 10**400 + 1]
    assert len({digest_of([{"n": number}]) for number in near}) == len(near)
    assert digest_of([{"n": 10**22}]) == digest_of([{"n": 1e22}])
    assert digest_of([{"n": 2**53}]) == digest_of([{"n": 2.0**53}])
