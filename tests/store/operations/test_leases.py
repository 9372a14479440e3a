"""Leases: which driver may take a group out of the queue, and which clock ends a lease."""

from datetime import datetime, timedelta, tzinfo

import pytest
from sqlalchemy import event, select
from turnwise.store.database import Database
from turnwise.store.errors import LeaseLost, NotFound
from turnwise.store.schema import lease, types
from turnwise.tests.store.making import call, create_run, play_group, start, states


def test_a_group_expires_only_for_its_run_and_its_owner(database: Database) -> None:
    start(database)
    create_run(database, "other")
    play_group(database, "a")
    play_group(database, "b")
    assert call(database, "lease_groups", run="r", owner="learner", count=1, timeout_s=60) == ["a"]
    with pytest.raises(LeaseLost, match="stranger does not hold group a"):
        call(database, "expire_groups", run="r", owner="stranger", groups=["b", "a"], reason="too old")
    for name in ("a", "b"):
        with pytest.raises(NotFound, match=f"no group {name} of run other"):
            call(database, "expire_groups", run="other", owner="learner", groups=[name], reason="too old")
    with pytest.raises(NotFound, match="no run nobody"):
        call(database, "expire_groups", run="nobody", owner="learner", groups=["b"], reason="too old")
    assert states(database) == {"leased": 1, "ready": 1}
    for _ in range(2):
        call(database, "expire_groups", run="r", owner="learner", groups=["a", "b"], reason="too old")
    assert states(database) == {"expired": 2}


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lease_lasts_by_the_clock_of_the_database(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only PostgreSQL has writers on several hosts; the clock of this host is one hour fast."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Ahead":
            return super().now(tz) + timedelta(hours=1)

    start(database)
    play_group(database, "g")
    assert call(database, "lease_groups", run="r", owner="here", count=1, timeout_s=60) == ["g"]
    monkeypatch.setattr(types, "datetime", Ahead)
    assert call(database, "lease_groups", run="r", owner="ahead", count=1, timeout_s=60) == []
    assert call(database, "release", run="r", owner="here") == ["g"]
    assert call(database, "lease_groups", run="r", owner="ahead", count=1, timeout_s=60) == ["g"]
    with database.read() as conn:
        taken = conn.execute(select(lease.c.taken_at).order_by(lease.c.no)).scalars().all()
    assert timedelta(0) <= taken[1] - taken[0] < timedelta(minutes=10)


def test_a_lease_that_finds_too_few_groups_takes_two_statements(database: Database) -> None:
    """Each statement waits for a core that the workers use, too."""
    create_run(database)
    play_group(database, "g")
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement))
    assert call(database, "lease_groups", run="r", owner="learner", count=2, timeout_s=60) == []
    assert [one.split()[0] for one in statements if one != "BEGIN IMMEDIATE"] == ["SELECT", "SELECT"]
