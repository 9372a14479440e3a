"""The reading commands against a real store, and what every wrong use of the command line ends in."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ENV, Turnwise


def test_runs_list_names_the_run(turnwise: Turnwise, store: str) -> None:
    assert "demo" in turnwise("runs", "list", "--store", store).out
    runs = json.loads(turnwise("runs", "list", "--json", "--store", store).out)
    assert [(run["id"], run["status"]) for run in runs] == [("demo", "running")]


def test_runs_show_accounts_for_every_trajectory(turnwise: Turnwise, store: str) -> None:
    shown = json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)
    assert shown["accounting"]["submitted"] == 2
    assert shown["groups"]["open"] == 1
    assert "trajectories  submitted 2" in turnwise("runs", "show", "demo", "--store", store).out


def test_a_run_is_asked_to_stop_once_it_runs(turnwise: Turnwise, store: str) -> None:
    assert turnwise("runs", "stop", "demo", "--store", store).code == 0
    assert json.loads(turnwise("runs", "show", "demo", "--json", "--store", store).out)["stop_requested"] is True


def test_trajectories_are_listed_and_paged(turnwise: Turnwise, store: str) -> None:
    every = ["trajectories", "list", "--run", "demo", "--json", "--store", store, "--sort", "id", "--ascending"]
    assert [row["id"] for row in json.loads(turnwise(*every).out)] == ["t0", "t1"]
    assert [row["id"] for row in json.loads(turnwise(*every, "--limit", "1").out)] == ["t0"]
    assert [row["id"] for row in json.loads(turnwise(*every, "--after", "t0").out)] == ["t1"]
    assert json.loads(turnwise(*every, "--status", "completed").out) == []
    assert {row["status"] for row in json.loads(turnwise(*every).out)} == {"truncated"}


def test_what_an_agent_wrote_is_shown_inert(turnwise: Turnwise, store: str) -> None:
    shown = turnwise("trajectories", "show", "t1", "--store", store).out
    assert "\x1b" not in shown
    assert "> [red]click[/red] home" in shown


def test_json_of_a_trajectory_keeps_what_was_written(turnwise: Turnwise, store: str) -> None:
    shown = json.loads(turnwise("trajectories", "show", "t1", "--json", "--store", store).out)
    assert shown["steps"][0]["action"].startswith("\x1b[2J")
    assert shown["task"]["env_id"] == ENV


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runs", "show", "nope"], "no run nope"),
        (["trajectories", "show", "nope"], "no trajectory nope"),
        (["trajectories", "list", "--run", "nope"], "no run nope"),
        (["trajectories", "list", "--sort", "nope"], "created_at"),
        (["trajectories", "list", "--after", "nope"], "nope"),
        (["runs", "fork", "demo", "--set", "budget.updates"], "expected key=value"),
    ],
)
def test_a_wrong_name_is_told_and_exits_2(turnwise: Turnwise, store: str, arguments: list[str], told: str) -> None:
    ended = turnwise(*arguments, "--store", store)
    assert ended.code == 2
    assert told in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_an_unknown_environment_names_the_nearest(turnwise: Turnwise) -> None:
    ended = turnwise("envs", "check", "turnwise/Sit-v0")
    assert ended.code == 2
    assert f"did you mean '{ENV}'?" in ended.err


def test_no_store_is_told_with_what_to_do(turnwise: Turnwise, tmp_path: Path) -> None:
    ended = turnwise("runs", "list", "--store", f"sqlite:///{tmp_path}/none.db")
    assert ended.code == 2
    assert "turnwise db upgrade" in ended.err
    assert not list(tmp_path.iterdir())


def test_a_store_of_another_revision_is_refused_with_the_one_command(turnwise: Turnwise, store: str) -> None:
    with sqlite3.connect(store.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    connection.close()
    ended = turnwise("runs", "list", "--store", store)
    assert ended.code == 2
    assert f"turnwise db upgrade --store {store}" in ended.err
    assert turnwise("db", "current", "--store", store).code == 1


def test_db_upgrade_makes_a_store_and_may_be_repeated(turnwise: Turnwise, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/turnwise.db"
    first = json.loads(turnwise("db", "upgrade", "--json", "--store", url).out)
    assert first["revision"] == first["head"]
    assert json.loads(turnwise("db", "upgrade", "--json", "--store", url).out) == first
    assert turnwise("db", "current", "--store", url).code == 0


def test_envs_check_reports_each_check(turnwise: Turnwise) -> None:
    report = json.loads(turnwise("envs", "check", ENV, "--json").out)
    assert report["ok"] is True
    assert {finding["verdict"] for finding in report["findings"]} == {"passed"}


def test_envs_list_has_ours(turnwise: Turnwise) -> None:
    assert ENV in [row["id"] for row in json.loads(turnwise("envs", "list", "--json").out)]


def test_doctor_finds_what_training_needs(turnwise: Turnwise) -> None:
    ended = turnwise("doctor", "--json")
    parts = {part["name"]: part for part in json.loads(ended.out)}
    assert ended.code == 0
    assert all(part["found"] and part["version"] for part in parts.values() if part["needed"])
    assert {"docker engine", "chromium", "bubblewrap", "Xvfb", "postgres server", "disk space"} <= set(parts)
    assert all(part["get"] for part in parts.values() if not part["found"])


@pytest.mark.parametrize("command", [[], ["runs"], ["trajectories"], ["envs"], ["model"], ["db"]])
def test_a_group_alone_shows_its_commands(turnwise: Turnwise, command: list[str]) -> None:
    ended = turnwise(*command)
    assert "Commands:" in ended.out + ended.err


def test_the_installed_program_starts() -> None:
    program = Path(sys.executable).with_name("turnwise")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("turnwise ")


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        ('name = "x"\nenviroments = []\n', [], "environments"),
        ('name = "x"\n[[environments]]\nid = "a"\n[rollout]\nstalenes = 1\n', [], "staleness"),
        ('name = "x"\n[[environments]]\nid = "a"\n', ["--set", "budget.updats=3"], "updates"),
        ('name = "x"\n[[environments]]\nid = "a"\n', ["--set", "budget.updates=many"], "budget.updates"),
        ("name = ", [], "not valid TOML"),
        (None, [], "cannot read"),
    ],
)
def test_a_wrong_configuration_is_told_before_anything_starts(
    turnwise: Turnwise, tmp_path: Path, text: str | None, arguments: list[str], told: str
) -> None:
    config = tmp_path / "run.toml"
    if text is not None:
        config.write_text(text)
    ended = turnwise("train", str(config), *arguments, "--store", f"sqlite:///{tmp_path}/store/turnwise.db")
    assert ended.code == 2
    assert told in ended.err
    assert not (tmp_path / "store").exists()
