"""Reward sets: other rewards of stored trajectories under a name, next to the old ones."""

import pytest
from sqlalchemy import update
from turnwise.records import GroupState, Status
from turnwise.store import queries
from turnwise.store.database import Database
from turnwise.store.errors import NotFound, StepCorrupt, StoreConflict
from turnwise.store.operations import Rewards, create_reward_set
from turnwise.store.queries.rewards import Returns
from turnwise.store.schema import reward
from turnwise.tests.store.making import call, contents, create_run, group, play, play_group, play_scored, start

COUNT = {"reward_set": ("n_rewards",)}


def make(
    database: Database, name: str = "strict", component: str = "checker", run: str = "r", **options: object
) -> int:
    with database.transaction() as tx:
        return create_reward_set(tx, run=run, name=name, component=component, options=options)


def test_a_set_is_made_once_and_keeps_its_component_and_options(database: Database) -> None:
    start(database)
    number = make(database, weight=2)
    before = contents(database)
    assert make(database, weight=2) == number
    assert contents(database) == before
    assert make(database, "other") != number
    with pytest.raises(StoreConflict, match="`checker` with other options"):
        make(database, weight=3)
    with pytest.raises(StoreConflict, match="of `checker`, not of `llm_judge`"):
        make(database, component="llm_judge")
    with pytest.raises(NotFound, match="no run absent"):
        make(database, run="absent")
    with database.read() as conn:
        assert [one.name for one in queries.reward_sets(conn, "r")] == ["strict", "other"]
        found = queries.reward_set(conn, "r", "strict")
        assert (found.no, found.run, found.component, found.options) == (number, "r", "checker", {"weight": 2})
        with pytest.raises(NotFound, match=r"no reward set `lax`; it has strict, other"):
            queries.reward_set(conn, "r", "lax")


def test_rewards_are_kept_and_only_a_missing_score_is_replaced(database: Database) -> None:
    start(database)
    play_scored(database, "g", 0, [0.0, 1.0])
    number = make(database)
    old = {name: rows for name, rows in contents(database, without=COUNT).items() if name != "reward"}
    first = [Rewards("g-0", [2.0], [{"why": "right"}]), Rewards("g-1", None, [{"error": "no answer"}])]
    call(database, "add_rewards", reward_set=number, rewards=first)
    with database.read() as conn:
        assert queries.not_in_set(conn, "r", number) == [("g", ["g-1"])]
        assert queries.returns_in(conn, number) == [Returns("g", 0.0, 2.0)]
    call(database, "add_rewards", reward_set=number, rewards=[Rewards("g-0", [7.0]), Rewards("g-1", [5.0])])
    call(database, "add_rewards", reward_set=number, rewards=[Rewards("g-1", None)])
    with database.read() as conn:
        found = queries.rewards_of(conn, ["g-0", "g-1", "absent"], number)
        assert {name: (one.rewards, one.verdicts) for name, one in found.items()} == {
            "g-0": ([2.0], [{"why": "right"}]),
            "g-1": ([5.0], []),
        }
        assert queries.not_in_set(conn, "r", number) == []
    assert {name: rows for name, rows in contents(database, without=COUNT).items() if name != "reward"} == old
    with pytest.raises(NotFound, match="no trajectory absent"):
        call(database, "add_rewards", reward_set=number, rewards=[Rewards("absent", [1.0])])


def test_an_altered_score_is_found(database: Database) -> None:
    start(database)
    play_scored(database, "g", 0, [0.0, 1.0])
    number = make(database)
    call(database, "add_rewards", reward_set=number, rewards=[Rewards("g-0", [2.0]), Rewards("g-1", [3.0])])
    with database.transaction() as tx:
        tx.conn.execute(update(reward).where(reward.c.total == 2.0).values(rewards=[9.0]))
    with database.read() as conn:
        assert queries.rewards_of(conn, ["g-1"], number)["g-1"].rewards == [3.0]
        with pytest.raises(StepCorrupt, match="trajectory g-0: its stored rewards were altered"):
            queries.rewards_of(conn, ["g-0", "g-1"], number)


def test_only_ended_trajectories_of_closed_surviving_groups_can_be_scored(database: Database) -> None:
    start(database)
    call(database, "set_checkpoint", run="r", version=0, path="step-0")
    play_group(database, "closed")
    call(database, "open_group", group=group("open"))
    play(database, "open-0", "open", 0)
    call(database, "open_group", group=group("failing"))
    play(database, "failing-0", "failing", 0, status=Status.ENV_ERROR)
    play(database, "failing-1", "failing", 0, attempt=1, status=Status.TRUNCATED)
    call(database, "close_group", group="failing", state=GroupState.FAILED)
    create_run(database, "elsewhere")
    play_group(database, "foreign", run="elsewhere")
    play_group(database, "later", version=1)
    number = make(database)
    with database.read() as conn:
        assert queries.scorable(conn, "r") == 5
    call(database, "rewind", run="r", version=0)
    with database.read() as conn:
        waiting = queries.not_in_set(conn, "r", number)
        assert sorted(waiting) == [
            ("closed", ["closed-0", "closed-1"]),
            ("failing", ["failing-1"]),
            ("open", ["open-0"]),
        ]


def test_groups_are_loaded_with_the_rewards_of_a_set(database: Database) -> None:
    start(database)
    play_scored(database, "g", 0, [0.0, 1.0, 1.0])
    number = make(database)
    call(database, "add_rewards", reward_set=number, rewards=[Rewards("g-0", [3.0]), Rewards("g-1", None)])
    with database.read() as conn:
        stored = queries.reward_set(conn, "r", "strict")
    with pytest.raises(
        NotFound, match="trajectory g-2 has no score in the reward set `strict`: run `turnwise runs score r"
    ):
        queries.load_scored(database, ["g"], rewards=stored)
    call(database, "add_rewards", reward_set=number, rewards=[Rewards("g-2", [4.0])])
    (scored,) = queries.load_scored(database, ["g"], rewards=stored)
    assert [one.id for one in scored.group.trajectories] == ["g-0", "g-2"]
    assert (scored.rewards, scored.unscored) == ([[3.0], [4.0]], 1)
