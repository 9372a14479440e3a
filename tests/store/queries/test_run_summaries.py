"""The numbers of a page of runs are those of their rows, and cost two statements."""

from typing import Any

import pytest
from sqlalchemy import event
from turnwise.base.rates import Rate
from turnwise.records import GroupState, Purpose, Status
from turnwise.store.database import Database
from turnwise.store.queries import evaluations, list_runs, run_summaries
from turnwise.store.queries.run_summaries import HeldOut, RunSummary
from turnwise.tests.store.making import call, create_run, group, play, play_group, task, train

ENVIRONMENTS = {"environments": [{"id": "a/A-v0"}, {"id": "b/B-v0"}, {"id": "a/A-v0", "options": {"level": 2}}]}


def evaluated(success: float | None, **others: Any) -> dict[str, Any]:
    return {
        "success": success,
        "low": 0.1,
        "high": 0.9,
        "tasks": 10,
        "episodes": 10,
        "reward": 0.25,
        "groups": "",
        **others,
    }


def test_a_training_run_has_the_numbers_of_its_newest_surviving_update(database: Database) -> None:
    create_run(database, config=ENVIRONMENTS)
    call(database, "add_version", run="r", update=0, parent=None)
    for number in range(3):
        play_group(database, f"g{number}")
        numbers = {"success": 0.25 * (number + 1), "reward": 0.5 * (number + 1)}
        train(database, [f"g{number}"], number + 1, number, metrics=numbers)
    find = {"tasks": 1, "episodes": 1, "success": 1.0, "low": 0.2, "high": 1.0}
    sampled = {"episodes": 20, "pass_at": {"2": 0.75}, "pass_all": {"2": 0.25}, "by_environment": {"find": find}}
    sampled["groups"] = "r:eval-update-3-"
    call(database, "add_metrics", run="r", update=0, kind="evaluation untrained", metrics=evaluated(0.25))
    call(database, "add_metrics", run="r", update=3, kind="evaluation update 3", metrics=evaluated(0.5, **sampled))
    rate = Rate(10, 20, 0.5, 0.1, 0.9, {"2": 0.75}, {"2": 0.25})
    before = HeldOut("untrained", 0, Rate(10, 10, 0.25, 0.1, 0.9), {}, 0.25, "")
    after = HeldOut("update 3", 3, rate, {"find": Rate(1, 1, 1.0, 0.2, 1.0)}, 0.25, "r:eval-update-3-")
    with database.read() as conn:
        assert run_summaries(conn, list_runs(conn)) == {"r": RunSummary(["a/A-v0", "b/B-v0"], 3, 0.75, 1.5, after)}
        assert evaluations(conn, ["r", "other"]) == {"r": [before, after]}
    call(database, "rewind", run="r", version=1)
    with database.read() as conn:
        (found,) = run_summaries(conn, list_runs(conn)).values()
        assert evaluations(conn, ["r"]) == {"r": [before]}
    assert (found.updates, found.success, found.held_out) == (1, 0.25, before)


def test_an_evaluation_has_the_numbers_of_its_counted_episodes(database: Database) -> None:
    create_run(database, "e", kind="eval", config={})
    call(database, "open_group", group=group("g", "e", 5, Purpose.EVAL))
    for member, status in enumerate([Status.COMPLETED, Status.TRUNCATED, Status.TIMEOUT, Status.ENV_ERROR]):
        play(database, f"g-{member}", "g", member, turns=member + 1, status=status, run="e")
    call(database, "close_group", group="g", state=GroupState.FILTERED)
    with database.read() as conn:
        found = run_summaries(conn, list_runs(conn))["e"]
    assert found.environments == [task().env_id]
    assert (found.updates, found.held_out) == (0, None)
    assert found.success == pytest.approx(1 / 3), "the failure of the environment is not counted"
    assert found.reward == pytest.approx((1 + 2 + 3) / 3)


def test_a_run_without_episodes_has_no_numbers(database: Database) -> None:
    create_run(database, "e", kind="eval", config={})
    create_run(database, "t")
    with database.read() as conn:
        found = run_summaries(conn, list_runs(conn))
    assert found == dict.fromkeys(("e", "t"), RunSummary([], 0, None, None, None))


def test_the_statements_of_a_page_do_not_grow_with_its_runs(database: Database) -> None:
    for number in range(4):
        create_run(database, f"t{number}")
        create_run(database, f"e{number}", kind="eval")
    seen: list[str] = []
    with database.read() as conn:
        page = list_runs(conn)
        event.listen(conn, "before_cursor_execute", lambda *arguments: seen.append(arguments[2]))
        assert len(run_summaries(conn, page)) == 8
    assert len(seen) == 2
