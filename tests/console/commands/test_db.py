"""The commands that care for a store: upgrade with a backup, check, garbage collection, statistics and search."""

import json
from pathlib import Path

import pytest
from sqlalchemy import text, update
from turnwise.store import migrate
from turnwise.store.database import open_database, revisions
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.schema import step
from turnwise.tests.chaos.harness import CONFIG
from turnwise.tests.store.making import call, play_group, start, train
from turnwise.tests.store.migrations.revisions import NEXT, add_revision

from ..conftest import HOSTILE, Turnwise


@pytest.fixture
def trained(tmp_path: Path) -> str:
    """Return the URL of a store with three updates and a checkpoint at the last."""
    url = f"sqlite:///{tmp_path}/trained.db"
    database = open_database(url, create=True)
    start(database)
    for number in range(1, 4):
        play_group(database, f"g{number}", version=number - 1)
        train(database, [f"g{number}"], number, number - 1)
    call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
    database.close()
    return url


def test_an_upgrade_keeps_a_copy_of_the_database(
    turnwise: Turnwise, trained: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = migrate.head()
    assert "backup" not in turnwise("db", "upgrade", "--store", trained).err
    add_revision(tmp_path / "next", monkeypatch)
    ended = turnwise("db", "upgrade", "--store", trained)
    copy = tmp_path / f"trained.db.{older}.backup"
    assert ended.code == 0
    assert ended.err == f"backup: {copy}\n"
    assert revisions(trained) == (NEXT, NEXT)
    assert revisions(f"sqlite:///{copy}") == (older, NEXT)
    monkeypatch.undo()
    database = open_database(f"sqlite:///{copy}")
    with database.read() as conn:
        assert len(conn.execute(step.select()).all()) == 12
    assert list(check_store(database, content=True)) == []
    database.close()


@pytest.mark.parametrize(
    "command",
    [
        "train small.toml",
        "eval --policy random --env turnwise/TextSite-v0",
        "runs list",
        "runs show r",
        "runs compare r r",
        "db check",
        "db upgrade",
        "db upgrade --no-backup",
    ],
)
def test_every_command_refuses_a_store_from_before_the_first_revision(
    turnwise: Turnwise, trained: str, tmp_path: Path, command: str
) -> None:
    database = open_database(trained)
    with database.transaction() as tx:
        tx.conn.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    database.close()
    given = [str(CONFIG) if word.endswith(".toml") else word for word in command.split()]
    ended = turnwise(*given, "--store", trained)
    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert "is at revision 0001, which no upgrade leads from, and this turnwise needs 0006: name a new store by" in line
    assert list(tmp_path.glob("*.backup")) == []


def test_a_check_exits_with_1_on_a_finding(turnwise: Turnwise, trained: str) -> None:
    ended = turnwise("db", "check", "--content", "--store", trained)
    assert (ended.code, ended.out) == (0, "no findings\n")
    database = open_database(trained)
    with database.transaction() as tx:
        tx.conn.execute(update(step).where(step.c.trajectory_no == 1, step.c.idx == 0).values(reward=9.0))
    database.close()
    ended = turnwise("db", "check", "--store", trained)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        "step trajectory_no=1 idx=0, digest: the row, or one of its images, was altered",
        "1 findings",
    ]
    shown = json.loads(turnwise("db", "check", "--json", "--store", trained).out)
    assert (shown["findings"], shown["shown"][0]["field"]) == (1, "digest")


def test_a_collection_prunes_by_the_policy(turnwise: Turnwise, trained: str) -> None:
    policy = ["--keep-versions", "1", "--prune-successes", "--store", trained]
    assert json.loads(turnwise("db", "gc", "--dry-run", "--json", *policy).out)["pruned"] == 4
    shown = turnwise("db", "gc", "--vacuum", *policy)
    assert shown.code == 0
    assert "trajectories pruned  4" in " ".join(shown.out.split(" ")).replace("   ", "  ")
    refused = turnwise("trajectories", "show", "g1-0", "--store", trained)
    assert refused.code == 2
    assert "retention removed content of trajectory g1-0" in refused.err
    refused = turnwise("trajectories", "replay", "g1-0", "--store", trained)
    assert refused.code in (1, 2)
    assert "retention removed" in refused.out + refused.err
    assert turnwise("db", "check", "--content", "--store", trained).code == 0
    assert "not a size" in turnwise("db", "gc", "--max-size", "much", "--store", trained).err


def test_statistics_of_a_store(turnwise: Turnwise, trained: str) -> None:
    shown = json.loads(turnwise("db", "stats", "--json", "--store", trained).out)
    assert (shown["steps"], shown["tables"]["step"]["rows"]) == (12, 12)
    assert shown["tables"]["step"]["bytes"] >= 4096
    text = turnwise("db", "stats", "--store", trained).out
    assert "per step" in text
    assert "trajectory" in text


def test_a_search_shows_inert_text(turnwise: Turnwise, store: str) -> None:
    shown = turnwise("trajectories", "search", "click home", "--store", store)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "t1" in shown.out
    assert "[red]click[/red] home" in shown.out
    hits = json.loads(turnwise("trajectories", "search", "click", "--json", "--store", store).out)
    assert hits["complete"] is True
    assert any(HOSTILE[-10:] in hit["text"] for hit in hits["hits"])
    refused = turnwise("trajectories", "search", '"click', "--store", store)
    assert refused.code == 2
    assert "a quote that is not closed" in refused.err
    empty = turnwise("trajectories", "search", "absent", "--store", store)
    assert empty.out == "no turn matches query 'absent'\n"
