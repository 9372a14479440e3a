"""``turnwise runs`` on a real store: its lists, its summaries, and whether the driver of a run is alive."""

import json
import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
from turnwise.console.commands.runs import RunStatus
from turnwise.envs.tasks import make_task
from turnwise.records import Group, GroupState, Horizon, Status, Trajectory
from turnwise.store import operations, queries
from turnwise.store.database import open_database
from turnwise.store.operations.group_states import RUN_ENDED
from turnwise.store.operations.runs import END_STATUSES
from turnwise.store.run_lock import hold_run
from turnwise.tests.store.making import call, create_run, play_group, sqlite_store, train

from ..conftest import ENV, Turnwise


def test_runs_list_names_the_run(turnwise: Turnwise, store: str) -> None:
    assert "demo" in turnwise("runs", "list", "--store", store).out
    runs = json.loads(turnwise("runs", "list", "--json", "--store", store).out)
    assert [(run["id"], run["status"]) for run in runs] == [("demo", "running")]


def test_runs_list_has_the_numbers_of_the_store(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sqlite_store(tmp_path)
    database = open_database(url)
    create_run(database, config={"environments": [{"id": "a/A-v0"}, {"id": "b/B-v0"}]})
    call(database, "add_version", run="r", update=0, parent=None)
    play_group(database, "g")
    train(database, ["g"], 1, 0, metrics={"success": 0.25, "reward": -0.125})
    rate = {"tasks": 8, "episodes": 16, "success": 0.5, "low": 0.2, "high": 0.8, "pass_at": {"2": 0.75}, "pass_all": {}}
    rate["pass_tasks"] = {"2": 8}
    metrics = rate | {"reward": 0.5, "groups": "r:eval-update-1-"}
    call(database, "add_metrics", run="r", update=1, kind="evaluation update 1", metrics=metrics)
    call(database, "finish_run", run="r", status="finished")
    database.close()
    shown = [re.split(" {2,}", line) for line in turnwise("runs", "list", "--store", url).out.splitlines()]
    assert shown == [
        ["run", "status", "updates", "success", "reward", "held out", "age", "environments", "kind"],
        ["r", "finished", "1", "0.25", "-0.125", "0.50 (update 1)", shown[1][6], "a/A-v0, b/B-v0", "train"],
    ]
    (listed,) = json.loads(turnwise("runs", "list", "--json", "--store", url).out)
    assert (listed["updates"], listed["success"], listed["reward"]) == (1, 0.25, -0.125)
    assert listed["held_out"] == {
        "name": "update 1",
        "update": 1,
        "rate": rate,
        "by_environment": {},
        "reward": 0.5,
        "groups": "r:eval-update-1-",
        "samples": 1,
        "temperature": None,
    }
    monkeypatch.delattr(queries, "task_results")  # the numbers of a training run are in its metrics
    page = turnwise("runs", "show", "r", "--store", url).out
    assert re.search(r"^held out +50\.0% \[20\.0%, 80\.0%\] \(95% interval\)\npass@k +k=2 75\.0%$", page, re.MULTILINE)
    assert listed["environments"] == ["a/A-v0", "b/B-v0"]


def test_runs_show_accounts_for_every_trajectory(turnwise: Turnwise, store: str) -> None:
    shown = json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)
    assert shown["accounting"]["submitted"] == 2
    assert shown["groups"]["open"] == 1
    assert "trajectories  submitted 2" in turnwise("runs", "show", "demo", "--store", store).out


def test_runs_list_filters_by_kind(turnwise: Turnwise, store: str) -> None:
    assert "demo" in turnwise("runs", "list", "--kind", "train", "--store", store).out
    assert turnwise("runs", "list", "--kind", "eval", "--store", store).out == "no run matches kind 'eval'\n"


def test_the_statuses_of_runs_are_the_stores() -> None:
    assert get_args(RunStatus) == ("running", "interrupted", *END_STATUSES)


def statuses(turnwise: Turnwise, store: str, *filters: str) -> dict[str, tuple[str, str | None]]:
    """Return the status and the driver of each run that ``runs list`` prints."""
    runs = json.loads(turnwise("runs", "list", "--json", *filters, "--store", store).out)
    return {run["id"]: (run["status"], run["driver"]) for run in runs}


def test_a_run_whose_driver_is_gone_is_interrupted(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        for name in ("lives", "died", "ended"):
            operations.create_run(tx, run=name, config={}, config_hash=name, kind="train", code_version="c")
        operations.finish_run(tx, run="ended", status="finished")
    lock = tmp_path / "died" / "lock"
    with hold_run(database, "lives"):
        lock.parent.mkdir()
        shutil.copy(tmp_path / "lives" / "lock", lock)
        expected = {
            "demo": ("running", "unknown"),
            "lives": ("running", "alive"),
            "died": ("interrupted", "gone"),
            "ended": ("finished", None),
        }
        assert statuses(turnwise, store) == expected
        assert set(statuses(turnwise, store, "--status", "running")) == {"demo", "lives"}
        for status in ("interrupted", "finished"):
            chosen = {name: shown for name, shown in expected.items() if shown[0] == status}
            assert statuses(turnwise, store, "--status", status, "--limit", "1") == chosen
        shown = turnwise("runs", "list", "--store", store).out
        assert re.search(r"^demo +running \(driver not visible from this host\) .* train$", shown, re.MULTILINE)
        assert re.search(r"^lives +running  ", shown, re.MULTILINE)
        assert re.search(r"^died +interrupted  ", shown, re.MULTILINE)
        assert "status        interrupted\n" in turnwise("runs", "show", "died", "--store", store).out
        assert "status        running\n" in turnwise("runs", "show", "lives", "--store", store).out
    with database.read() as conn:
        assert queries.find_run(conn, "died").status == "running", "nothing is written by looking"
    requested = turnwise("runs", "stop", "died", "--store", store)
    assert requested.code == 0
    assert "its driver may be gone" in requested.out
    with database.read() as conn:
        assert queries.find_run(conn, "died").stop_requested
    assert turnwise("runs", "stop", "ended", "--store", store).code == 2
    database.close()


def test_runs_show_before_the_first_update_and_at_a_checkpoint(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        operations.create_run(tx, run="new", config={}, config_hash="n", kind="train", code_version="c")
        operations.add_version(tx, run="new", update=-1, parent=None)
    assert json.loads(turnwise("runs", "show", "new", "--json", "--store", store).out)["updates"] == 0
    with database.transaction() as tx:
        operations.add_version(tx, run="new", update=0, parent=0)
        operations.set_checkpoint(tx, run="new", version=1, path="new/checkpoints/1")
        rate = {"tasks": 100, "episodes": 100, "success": 0.35, "low": 0.2637, "high": 0.4475}
        metrics = rate | {"version": 1, "groups": "new:eval-after-"}
        operations.add_metrics(tx, run="new", update=0, kind="evaluation after", metrics=metrics)
    database.close()
    shown = turnwise("runs", "show", "new", "--store", store).out
    assert re.search(r"update 0, held-out success 35.0% \[26.4%, 44.8%\]: \S*new/checkpoints/1", shown)
    assert "updates          0" in shown
    assert re.search(r"version 1: \S*new/checkpoints/1", shown)


def test_runs_show_splits_failures_by_reason(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        operations.start_trajectory(tx, trajectory=Trajectory("t2", "demo", "g1", 0, 1))
        operations.finish_trajectory(tx, trajectory="t2", status=Status.CANCELLED, reward=0.0)
        operations.close_group(tx, group="g1", state=GroupState.FAILED, reason="the run ended")
    database.close()
    shown = json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)
    assert (shown["accounting"]["failed"], shown["failures"]) == (3, {"cancelled": 1})
    output = turnwise("runs", "show", "demo", "--store", store).out
    assert "submitted 3, failed 3 (cancelled 1, members of failed groups 2)" in output


def test_runs_show_counts_groups_that_the_end_of_the_run_cancelled_apart(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        operations.close_group(tx, group="g1", state=GroupState.FAILED, reason="0 of 2 members survived")
        for name in ("g2", "g3"):
            operations.open_group(tx, group=Group(name, "demo", make_task(ENV, seed=5), Horizon(12, 8, 96, 256), 2))
            operations.start_trajectory(tx, trajectory=Trajectory(f"{name}-0", "demo", name, 0, 0))
            operations.finish_trajectory(tx, trajectory=f"{name}-0", status=Status.CANCELLED, reward=0.0)
            operations.close_group(tx, group=name, state=GroupState.FAILED, reason=RUN_ENDED)
    database.close()
    out = turnwise("runs", "show", "demo", "--store", store).out
    assert "groups        failed 1, cut off by the end of the run 2\n" in out
    assert "submitted 4, failed 2 (members of failed groups 2), cut off by the end of the run 2\n" in out
    shown = json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)
    assert (shown["accounting"]["failed"], shown["failures"], shown["cut_off"]) == (4, {}, 2)
    assert (shown["groups"]["failed"], shown["groups"]["cancelled"]) == (1, 2)


def test_runs_show_calls_the_ready_groups_of_a_finished_run_not_needed(turnwise: Turnwise, tmp_path: Path) -> None:
    url = sqlite_store(tmp_path)
    database = open_database(url)
    create_run(database)
    play_group(database, "g")
    assert "groups        ready 1\n" in turnwise("runs", "show", "r", "--store", url).out
    call(database, "finish_run", run="r", status="finished")
    database.close()
    assert "groups        ready, not needed 1\n" in turnwise("runs", "show", "r", "--store", url).out


def test_a_running_run_receives_the_request_to_stop(turnwise: Turnwise, store: str) -> None:
    assert turnwise("runs", "stop", "demo", "--store", store).code == 0
    assert json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)["stop_requested"] is True


def test_a_request_to_stop_an_evaluation_is_refused(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        operations.create_run(tx, run="eval-1", config={}, config_hash="e", kind="eval", code_version="c")
    database.close()
    refused = turnwise("runs", "stop", "eval-1", "--store", store)
    assert (refused.code, refused.out) == (2, "")
    assert "eval-1 is an evaluation" in refused.err
    assert "press Ctrl-C or send SIGTERM to its process" in refused.err
    shown = json.loads(turnwise("runs", "show", "eval-1", "--json", "--store", store).out)
    assert shown["stop_requested"] is False
