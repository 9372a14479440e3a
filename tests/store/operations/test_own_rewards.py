"""The own rewards of a closed group: stored once, loaded with it, and kept or dropped by a resume."""

import pytest
from sqlalchemy import delete
from turnwise.records import GroupState, Status
from turnwise.store import queries
from turnwise.store.database import Database
from turnwise.store.errors import NotFound, StepCorrupt, StoreConflict
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.operations import Rewards
from turnwise.store.schema import reward
from turnwise.tests.store.making import call, contents, group, play, play_group, start, states, train

REWARDS = [
    Rewards("g-0", [0.5, 1.25], [{"reward": "judge", "score": 0.75}]),
    Rewards("g-1", None, [{"error": "no answer"}]),
]


def score(database: Database, name: str = "g", number: int = 0, state: GroupState = GroupState.READY) -> None:
    call(database, "score_group", group=name, number=number, state=state, rewards=REWARDS if name == "g" else ())


def test_a_group_is_loaded_with_its_stored_rewards_and_without_unscored_members(database: Database) -> None:
    start(database)
    play_group(database, "g", GroupState.SCORING)
    with database.read() as conn:
        assert queries.unscored_groups(conn, "r") == ["g"]
    score(database)
    (scored,) = queries.load_scored(database, ["g"])
    assert [one.id for one in scored.group.trajectories] == ["g-0"]
    assert (scored.rewards, scored.unscored) == ([[0.5, 1.25]], 1)
    with database.read() as conn:
        found = queries.rewards_of(conn, ["g-0", "g-1"])
        assert queries.unscored_groups(conn, "r") == []
        assert (queries.next_scoring(conn, "r"), queries.scored_from(conn, "r", 0)) == (1, [(0, "g")])
    assert found["g-0"].verdicts == [{"reward": "judge", "score": 0.75}]
    assert found["g-1"].rewards is None


def test_deleted_rewards_are_found_and_never_replaced_by_other_rewards(database: Database) -> None:
    start(database)
    play_group(database, "g", GroupState.SCORING)
    score(database)
    with database.transaction() as tx:
        tx.conn.execute(delete(reward))
    with pytest.raises(StepCorrupt, match="group g: rewards of 2 members were stored, and those of 0 are there"):
        queries.load_scored(database, ["g"])
    assert [one.field for one in check_store(database)] == ["n_rewards"]


def test_a_group_without_stored_rewards_keeps_the_rewards_of_its_environment(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group("h"))
    play(database, "h-0", "h", 0)
    play(database, "h-1", "h", 1, status=Status.ENV_ERROR)
    call(database, "close_group", group="h", state=GroupState.SCORING)
    score(database, "h", state=GroupState.FAILED)
    (scored,) = queries.load_scored(database, ["h"])
    assert [one.id for one in scored.group.trajectories] == ["h-0"]
    assert (scored.rewards, scored.unscored) == ([[0.5, 0.5]], 0)


def test_a_repeated_scoring_changes_nothing_and_a_second_one_is_refused(database: Database) -> None:
    start(database)
    play_group(database, "g", GroupState.SCORING)
    score(database)
    before = contents(database)
    score(database)
    call(database, "close_group", group="g", state=GroupState.SCORING)
    assert contents(database) == before
    with pytest.raises(StoreConflict, match="not to be scored"):
        score(database, number=1)
    train(database, ["g"], 1, 0)
    before = contents(database)
    score(database)
    call(database, "close_group", group="g", state=GroupState.SCORING)
    assert contents(database) == before


def test_only_a_closed_group_can_be_scored(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group("g"))
    with pytest.raises(StoreConflict, match="group g is open"):
        score(database)
    with pytest.raises(NotFound):
        score(database, "absent")
    with pytest.raises(ValueError, match="ready, filtered or failed"):
        score(database, state=GroupState.LEASED)


def test_a_resume_keeps_unscored_groups_of_surviving_versions(database: Database) -> None:
    start(database)
    call(database, "set_checkpoint", run="r", version=0, path="step-0")
    play_group(database, "first")
    train(database, ["first"], 1, 0)
    play_group(database, "kept", GroupState.SCORING, version=0)
    play_group(database, "stale", GroupState.SCORING, version=1)
    play_group(database, "filtered", GroupState.SCORING, version=1)
    score(database, "filtered", 0, GroupState.FILTERED)
    call(database, "rewind", run="r", version=0)
    with database.read() as conn:
        assert queries.unscored_groups(conn, "r") == ["kept"]
        assert queries.scored_from(conn, "r", 0) == []
        assert queries.next_scoring(conn, "r") == 1
        assert queries.accounting(conn, "r")["running"] == 2
    assert states(database) == {"scoring": 1, "expired": 1, "filtered": 1, "ready": 1}


def test_unscored_groups_of_a_finished_run_fail(database: Database) -> None:
    start(database)
    play_group(database, "g", GroupState.SCORING)
    call(database, "finish_run", run="r", status="stopped")
    assert states(database) == {"scoring": 1}
    call(database, "finish_run", run="r", status="finished")
    assert states(database) == {"failed": 1}
