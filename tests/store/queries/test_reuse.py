"""The reads of a replay buffer: earlier groups, successes and demonstrations of the surviving history."""

from sqlalchemy import update
from turnwise.records import GroupState, GroupSummary, Status
from turnwise.store.database import Database
from turnwise.store.operations import BatchItem
from turnwise.store.queries import RunReader, run_totals
from turnwise.store.schema import no_of, run, task, trajectory
from turnwise.tests.store.making import call, create_run, group, play, play_scored, start, train

CONSUMED, FILTERED, READY = GroupState.CONSUMED, GroupState.FILTERED, GroupState.READY


def ids(reader: RunReader, **chosen: object) -> list[str]:
    return [one.id for one in reader.groups(**{"limit": 9, **chosen})]  # type: ignore[arg-type]


def test_groups_are_selected_newest_first(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [0.0, 1.0])
    train(database, ["a"], 1, 0)
    play_scored(database, "b", 1, [0.25, 0.5], seed=1)
    train(database, ["b"], 2, 1)
    play_scored(database, "c", 2, [0.0, 0.0], FILTERED, version=2)
    create_run(database, "other")
    play_scored(database, "d", 0, [1.0, 1.0], run="other")
    reader = RunReader("r", database)
    found = reader.groups(limit=9)
    assert found == [
        GroupSummary("c", "task-0", FILTERED, 2, None, 2, [0.0, 0.0]),
        GroupSummary("b", "task-1", CONSUMED, 1, 2, 0, [0.25, 0.5]),
        GroupSummary("a", "task-0", CONSUMED, 0, 1, 0, [0.0, 1.0]),
    ]
    assert ids(reader, limit=1) == ["c"]
    assert ids(reader, task="task-0") == ["c", "a"]
    assert ids(reader, states={CONSUMED}) == ["b", "a"]
    assert ids(reader, min_update=2) == ["b"]
    assert [(one.group.id, one.rewards) for one in reader.load(["b", "a"])] == [
        ("b", [[0.25], [0.5]]),
        ("a", [[0.0], [1.0]]),
    ]


def test_a_success_may_be_of_any_scored_group(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [1.0, 1.0])
    train(database, ["a"], 1, 0)
    play_scored(database, "b", 1, [1.0, 0.0], FILTERED)
    play_scored(database, "c", 2, [0.0, 0.5])
    play_scored(database, "d", 3, [1.0], seed=1)
    reader = RunReader("r", database)
    assert reader.successes("task-0", min_return=1.0, limit=9) == ["b-0", "a-0", "a-1"]
    assert reader.successes("task-0", min_return=0.5, limit=2) == ["c-1", "b-0"]
    ((loaded, rewards),) = reader.load_trajectories(["b-0"])
    assert (loaded.id, loaded.group, list(rewards)) == ("b-0", "b", [1.0])
    assert [list(message.mask) for message in loaded.messages] == [[0, 0, 0], [1, 1]]


def test_the_verdict_of_the_environment_decides_over_the_return(database: Database) -> None:
    """Failures with a return of .65, a success with -.5, and truncated episodes, of which one has a verdict."""
    start(database)
    play_scored(database, "a", 0, [-0.5, 0.65, 0.65], verdicts=[True, False, None])
    play_scored(database, "b", 1, [0.65, 1.0, 0.0], verdicts=[None, False, True], status=Status.TRUNCATED)
    reader = RunReader("r", database)
    assert reader.successes("task-0", min_return=0.5, limit=9) == ["b-2", "a-0", "a-2"]
    assert reader.successes("task-0", min_return=0.9, limit=9) == ["b-2", "a-0"]
    assert reader.successes("task-0", min_return=0.5, limit=1) == ["b-2"]


def test_a_run_without_shapers_has_the_rewards_of_its_environment(database: Database) -> None:
    """An episode of the tests has one point per turn as its reward, and half a point as the reward of each turn."""
    start(database)
    call(database, "open_group", group=group("a"))
    play(database, "a-0", "a", 0, turns=3, success=None)
    play(database, "a-1", "a", 1, turns=1, success=None)
    call(database, "close_group", group="a", state=GroupState.SCORING)
    call(database, "score_group", group="a", number=0, state=READY)
    reader = RunReader("r", database)
    assert [one.returns for one in reader.groups(limit=1)] == [[3.0, 1.0]]
    assert reader.successes("task-0", min_return=2.0, limit=9) == ["a-0"]
    assert [list(rewards) for _, rewards in reader.load_trajectories(["a-0"])] == [[0.5, 0.5, 0.5]]


def test_an_abandoned_history_is_left_out(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [1.0, 0.0])
    train(database, ["a"], 1, 0)
    play_scored(database, "b", 1, [1.0, 0.0], version=1)
    reader = RunReader("r", database)
    assert ids(reader, states={CONSUMED}) == ["a"]
    call(database, "rewind", run="r", version=0)
    assert [(one.id, one.state, one.update) for one in reader.groups(limit=9)] == [("a", READY, None)]
    assert reader.successes("task-0", min_return=1.0, limit=9) == ["a-0"]
    assert [one.group.id for one in reader.load(["b", "a"])] == ["a"]
    assert [one.id for one, _ in reader.load_trajectories(["b-0", "a-0"])] == ["a-0"]


def test_another_run_is_not_loaded(database: Database) -> None:
    start(database)
    create_run(database, "other")
    play_scored(database, "a", 0, [1.0, 0.0], run="other")
    play_scored(database, "b", 0, [1.0, 0.0])
    reader = RunReader("r", database)
    assert [one.group.id for one in reader.load(["a", "b"])] == ["b"]
    assert [one.id for one, _ in reader.load_trajectories(["a-0", "b-0"])] == ["b-0"]


def test_demonstrations_are_of_any_run(database: Database) -> None:
    start(database)
    create_run(database, "demonstrations")
    play_scored(database, "a", 0, [1.0, 1.0], run="demonstrations")
    play_scored(database, "b", 1, [1.0], seed=1, run="demonstrations")
    play_scored(database, "c", 0, [1.0])
    with database.transaction() as tx:
        tx.conn.execute(
            update(trajectory).where(trajectory.c.run_no == no_of(run, "demonstrations")).values(source="expert")
        )
    reader = RunReader("r", database)
    assert sorted(reader.demonstrations(limit=9)) == ["a-0", "a-1", "b-0"]
    assert reader.demonstrations(limit=9, task="task-1") == ["b-0"]
    assert reader.demonstrations(limit=1, task="task-0") == ["a-1"]
    assert reader.demonstrations(limit=9, environment="another/Site-v0") == []
    assert len(reader.demonstrations(limit=9, environment="turnwise/TextSite-v0")) == 3
    assert reader.demonstrations(limit=9, run="r") == []
    assert len(reader.demonstrations(limit=9, run="demonstrations")) == 3
    with database.transaction() as tx:
        tx.conn.execute(update(task).where(task.c.id == "task-1").values(split="test"))
    assert sorted(reader.demonstrations(limit=9)) == ["a-0", "a-1"]


def test_the_groups_of_trajectories_are_in_their_order(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [1.0, 1.0])
    play_scored(database, "b", 1, [1.0])
    loaded = RunReader("r", database).load_demonstrations(["b-0", "a-1", "a-0"])
    assert [one.group.id for one in loaded] == ["b", "a"]


def test_reuse_counts_in_no_total(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [0.0, 1.0])
    train(database, ["a"], 1, 0)
    reused = {"groups": [], "items": [BatchItem("a-0", 4, 7, 0.5, fresh=False)], "metrics": {}}
    call(database, "acknowledge", run="r", owner="learner", update=2, parent=1, **reused)
    with database.read() as conn:
        totals = run_totals(conn, "r")
    assert (totals.trajectories, totals.consumed, totals.max_staleness) == (2, 2, 0)


def test_demonstrations_are_loaded_with_texts_and_without_other_members(database: Database) -> None:
    start(database)
    play_scored(database, "a", 0, [1.0, 1.0])
    (loaded,) = RunReader("r", database).load_demonstrations(["a-1"])
    assert [one.id for one in loaded.group.trajectories] == ["a-1"]
    assert len(loaded.rewards) == 1
    assert all(step.observation for step in loaded.group.trajectories[0].steps)
