"""What became of a group, and the clusters of a run's failures."""

import pytest
from turnwise.records import GroupState, Status
from turnwise.store.database import Database
from turnwise.store.operations.group_states import RUN_ENDED
from turnwise.store.queries import (
    failure_clusters,
    failures,
    group_fates,
    group_row_of,
    list_groups,
    training_of,
)
from turnwise.tests.store.making import call, group, play_group, play_scored, start, train, trajectory


def fates(database: Database, status: str = "running") -> dict[str, str]:
    with database.read() as conn:
        return {one.group.id: one.fate for one in group_fates(conn, list_groups(conn, run="r"), status)}


def test_each_group_states_what_became_of_it(database: Database) -> None:
    start(database)
    play_scored(database, "trained", 0, [1.0, 0.0])
    version = train(database, ["trained"], 1, 0)
    play_scored(database, "flat", 1, [0.5, 0.5], GroupState.FILTERED)
    play_group(database, "ready", version=version)
    for name, reason in (("failed", "too few members"), ("cut", RUN_ENDED)):
        call(database, "open_group", group=group(name))
        call(database, "close_group", group=name, state=GroupState.FAILED, reason=reason)
    call(database, "open_group", group=group("open"))
    assert fates(database) == {
        "trained": "consumed in update 1",
        "flat": "filtered",
        "ready": "waits for the learner",
        "failed": "failed: too few members",
        "cut": "cut off: the run ended while it was played",
        "open": "is played now",
    }
    assert fates(database, "finished")["ready"] == "not needed: it is ready, and the run is finished"


def test_members_have_their_returns_and_what_the_update_trained_on(database: Database) -> None:
    start(database)
    play_scored(database, "trained", 0, [1.0, 0.0])
    play_scored(database, "flat", 1, [0.5, 0.5], GroupState.FILTERED)
    train(database, ["trained"], 1, 0)
    with database.read() as conn:
        flat, trained = group_fates(conn, list_groups(conn, run="r"), "running")
    assert [(one.total, one.tokens_trained, one.advantage) for one in trained.members] == [(1.0, 4, 0.5), (0.0, 4, 0.5)]
    assert [(one.total, one.tokens_trained, one.advantage) for one in flat.members] == [(0.5, 0, None)] * 2
    assert (trained.update, trained.is_flat, flat.update, flat.is_flat) == (1, False, None, True)
    assert (trained.task.id, trained.task.seed) == ("task-0", 0)


def test_similar_failures_are_one_cluster(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group(size=4))
    errors = ["page 1 is gone", "Traceback\npage 27 is gone", "no answer", ""]
    for member, error in enumerate(errors):
        name = f"t{member}"
        call(database, "start_trajectory", trajectory=trajectory(name, member=member))
        status = Status.ENV_ERROR if error else Status.COMPLETED
        call(database, "finish_trajectory", trajectory=name, status=status, reward=0.0, success=None, error=error)
    with database.read() as conn:
        failed = failure_clusters(conn, "r")
    found = failed.clusters
    assert (failed.total, failed.read) == (3, 3)
    assert [(one.message, one.count, sorted(one.examples)) for one in found] == [
        ("page 27 is gone", 2, ["t0", "t1"]),
        ("no answer", 1, ["t2"]),
    ]


def test_the_newest_failures_are_read_and_all_are_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "READ_MAX", 2)
    start(database)
    call(database, "open_group", group=group(size=3))
    for member in range(3):
        name, error = f"t{member}", f"{member} " * 2_000 + "\nthe page is gone"
        call(database, "start_trajectory", trajectory=trajectory(name, member=member))
        call(database, "finish_trajectory", trajectory=name, status=Status.TIMEOUT, error=error)
    with database.read() as conn:
        found = failure_clusters(conn, "r")
    assert (found.total, found.read) == (3, 2)
    assert [(one.message, one.count, one.examples) for one in found.clusters] == [("the page is gone", 2, ["t2", "t1"])]


def test_a_group_of_an_interrupted_run_waits_for_its_resume(database: Database) -> None:
    start(database)
    play_group(database, "ready")
    call(database, "open_group", group=group("open"))
    found = fates(database, "interrupted")
    assert found == {
        "ready": "waits for a resume of the interrupted run",
        "open": "was played when the run was interrupted",
    }
    with database.read() as conn:
        row = group_row_of(conn, "ready-0")
    assert training_of(row, [], "interrupted") == "not yet: its group is ready, and the run is interrupted"
