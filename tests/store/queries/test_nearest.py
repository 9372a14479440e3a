"""The error of an unknown id names the nearest one, however many ids the store holds."""

import pytest
from turnwise.store import queries
from turnwise.store.database import Database
from turnwise.store.errors import NotFound
from turnwise.store.queries.nearest import CANDIDATES, plural
from turnwise.store.schema import run as run_table
from turnwise.store.schema.types import utc_now, uuid7


@pytest.mark.parametrize(
    ("wanted", "near"),
    [("site-00017-long", "'site-00017'"), ("site-0017x", "'site-0017"), ("Site-02999", "'site-02999'"), ("zzz", None)],
)
def test_the_error_names_the_nearest_of_many_ids(database: Database, wanted: str, near: str | None) -> None:
    row = {"kind": "train", "status": "finished", "config": {}, "config_hash": "h", "code_version": "c"}
    numbers = range(3 * CANDIDATES)
    rows = [dict(row, uid=uuid7(), id=f"site-{number:05}", created_at=utc_now()) for number in numbers]
    with database.transaction() as tx:
        tx.conn.execute(run_table.insert(), rows)
    with database.read() as conn, pytest.raises(NotFound) as refused:
        queries.find_run(conn, wanted)
    assert f"no run {wanted} in the store" in str(refused.value)
    assert (near is None) == ("did you mean" not in str(refused.value))
    assert near is None or near in str(refused.value)


def test_an_empty_id_is_named_as_such(database: Database) -> None:
    with database.read() as conn, pytest.raises(NotFound, match=r"id of the run is empty; `turnwise runs list` lists"):
        queries.find_run(conn, "")


def test_the_commands_of_each_noun_exist() -> None:
    assert [plural(noun) for noun in ("run", "trajectory")] == ["runs", "trajectories"]
