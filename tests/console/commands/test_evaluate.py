"""``turnwise eval`` and ``trajectories replay``: episodes are stored, and a failed world is reported, never scored."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool
from turnwise.store import operations, queries
from turnwise.store.database import open_database
from turnwise.tests.agents.servers import Response, scripted
from turnwise.tests.console.worlds import BROKEN

from ..conftest import ENV, Turnwise

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/turnwise.db"


def test_random_oracle_and_replay(turnwise: Turnwise, store: str) -> None:
    common = ["--env", ENV, "--tasks", "60", "--json", "--store", store]
    random = json.loads(turnwise("eval", "--policy", "random", *common).out)
    oracle = json.loads(turnwise("eval", "--policy", "oracle", *common).out)
    assert random["success"] <= 0.3
    assert oracle["success"] == 1.0
    ended = turnwise("trajectories", "replay", "--run", random["run"], "--sample", "25", "--store", store)
    assert ended.code == 0
    assert "25 of 25 match" in ended.out


def test_two_seeds_share_no_task(turnwise: Turnwise, store: str) -> None:
    played = []
    for seed in ("0", "1"):
        common = ["--env", ENV, "--tasks", "5", "--turns", "1", "--seed", seed, "--json", "--store", store]
        run = json.loads(turnwise("eval", *common).out)["run"]
        with open_database(store).read() as conn:
            played.append({row.task_id for row in queries.list_groups(conn, run=run)})
    assert [len(one) for one in played] == [5, 5]
    assert not played[0] & played[1]


def test_an_environment_that_lists_its_tasks_plays_each_once_and_says_how_many(turnwise: Turnwise, store: str) -> None:
    pool = ["--env", ENV, "--split", "train", "--option", "pool_size=3", "--tasks", "5", "--turns", "1"]
    ended = turnwise("eval", *pool, "--json", "--store", store)
    assert json.loads(ended.out)["tasks"] == 3
    assert f"{ENV} lists 3 tasks of `train`: each was played once, not the 5 of `--tasks`" in ended.err
    one = turnwise("eval", *pool[:4], "--option", "pool_size=1", "--tasks", "2", "--turns", "1", "--store", store)
    assert f"{ENV} lists 1 task of `train`: each was played once, not the 2 of `--tasks`" in one.err
    said = turnwise("eval", *pool[:6], "--turns", "1", "--store", store).err
    assert "each was played once, not the default 100\n" in said
    run = json.loads(ended.out)["run"]
    with open_database(store).read() as conn:
        assert len({row.task_id for row in queries.list_groups(conn, run=run)}) == 3
        config = queries.find_run(conn, run).config
    assert (config["split"], config["tasks"]) == ("train", 3)
    assert config["environments"] == [{"id": ENV, "options": {"pool_size": 3}}]


def test_many_trajectories_are_replayed_on_one_open_store(turnwise: Turnwise, store: str) -> None:
    run = json.loads(turnwise("eval", "--env", ENV, "--tasks", "5", "--json", "--store", store).out)["run"]
    connections: list[object] = []

    def count(connection: object, _: object) -> None:
        connections.append(connection)

    event.listen(Pool, "connect", count)
    try:
        assert turnwise("trajectories", "replay", "--run", run, "--sample", "5", "--store", store).out.endswith(
            "5 of 5 match\n"
        )
    finally:
        event.remove(Pool, "connect", count)
    assert len(connections) == 1


def test_an_altered_observation_is_found_and_its_step_named(turnwise: Turnwise, store: str) -> None:
    run = json.loads(turnwise("eval", "--env", ENV, "--tasks", "3", "--json", "--store", store).out)["run"]
    trajectory = turnwise("trajectories", "list", "--run", run, "--limit", "1", "--ids", "--store", store).out.strip()
    with sqlite3.connect(store.removeprefix("sqlite:///")) as connection:
        changed = connection.execute(
            "UPDATE step SET observation = 'page elsewhere' WHERE idx = 1"
            " AND trajectory_no = (SELECT no FROM trajectory WHERE id = ?)",
            [trajectory],
        )
        assert changed.rowcount == 1
    connection.close()
    ended = turnwise("trajectories", "replay", trajectory, "--store", store)
    assert ended.code == 1
    assert "step 1" in ended.out
    (report,) = json.loads(turnwise("trajectories", "replay", trajectory, "--json", "--store", store).out)
    assert (report["id"], report["matches"]) == (trajectory, False)
    assert "trajectory" not in report


@pytest.mark.parametrize(
    ("fault", "message"),
    [("raise", "the page is gone"), ("nan", "nan"), ("large", "observation"), ("report", "browser crashed")],
)
def test_a_failed_world_is_a_failure_with_its_reason(turnwise: Turnwise, store: str, fault: str, message: str) -> None:
    evaluation = ["eval", "--env", BROKEN, "--option", f"fault={fault}", "--tasks", "2", "--store", store]
    ended = turnwise(*evaluation)
    assert ended.code == 1
    assert "env_error" in ended.err
    assert message in ended.err
    assert "\x1b" not in ended.err
    stored = json.loads(turnwise("trajectories", "list", "--json", "--store", store).out)
    assert {row["status"] for row in stored} == {"env_error"}
    assert all(row["n_steps"] == 3 for row in stored), "the turn that broke the world included"


def test_valid_actions_without_weights_are_a_failure_with_its_reason(turnwise: Turnwise, store: str) -> None:
    ended = turnwise("eval", "--env", BROKEN, "--option", "fault=unweighted", "--tasks", "1", "--store", store)
    assert ended.code == 1
    assert "it must return (action, weight) pairs" in ended.err


def test_failures_next_to_outcomes_are_reported_with_reason_and_command(turnwise: Turnwise, store: str) -> None:
    evaluation = ["eval", "--env", BROKEN, "--option", "fault=odd", "--tasks", "4", "--store", store]
    ended = turnwise(*evaluation)
    assert ended.code == 0
    assert re.search(r"^failed +2$", ended.out, re.MULTILINE)
    message, command = ended.err.splitlines()
    assert message.startswith(
        "turnwise: 2 of 4 episodes failed and are left out of the rates: env_error 2; the first, "
    )
    assert message.endswith("reset raised LookupError: no page at all")
    program, *arguments = command.split()
    assert program == "turnwise"
    assert len(turnwise(*arguments, "--ids").out.split()) == 4, "each was played twice"
    ended = turnwise(*evaluation, "--json")
    assert (ended.code, ended.err, json.loads(ended.out)["failed"]) == (0, "", 2)


def test_a_policy_that_fails_where_it_would_lose_has_no_higher_rate(turnwise: Turnwise, store: str) -> None:
    """Of four episodes the server wins two; it loses the others by no text, too long a talk or a blocked one."""
    null = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
    long = {"error": {"message": "your request has 70 tokens", "code": "context_length_exceeded"}}
    blocked = {"error": {"message": "blocked", "code": "content_filter"}}
    for status, lost, shown in ((200, null, 2), (400, long, 0), (400, blocked, 2)):

        def respond(number: int, body: dict[str, Any], status: int = status, lost: Any = lost) -> Response:
            odd = "odd" in body["messages"][0]["content"]
            first = len(body["messages"]) == 1
            won = {"choices": [{"message": {"content": "go"}, "finish_reason": "stop"}]}
            return (status, {}, json.dumps(lost).encode()) if odd and not first else (200, {}, json.dumps(won).encode())

        with scripted(respond) as url:
            policy = ["eval", "--policy", url, "--env", BROKEN, "--option", "fault=none", "--tasks", "4"]
            ended = turnwise(*policy, "--json", "--store", store)
            found = json.loads(ended.out)
            assert (found["success"], found["tasks"], found["failed"]) == (0.5, 4, 0)
            assert found["failed_by_policy"] == shown
            text = turnwise(*policy, "--store", store)
        assert re.search(r"^success +50\.0%", text.out, re.MULTILINE)
        assert re.search(r"^temperature +1$", text.out, re.MULTILINE)
        counted = "turnwise: 2 of 4 episodes count as failures of the policy: policy_error 2; the first, "
        assert text.err.startswith(counted) is bool(shown)
        assert ("`finish_reason` 'length'" in text.err) is (lost is null)


def test_the_command_that_lists_failures_omits_the_default_store(
    turnwise: Turnwise, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_STORE", store)
    ended = turnwise("eval", "--env", BROKEN, "--option", "fault=odd", "--tasks", "2")
    assert ended.err.rstrip().endswith("--status env_error")


def test_runs_show_counts_evaluation_episodes_without_training(turnwise: Turnwise, store: str) -> None:
    evaluation = ["eval", "--env", BROKEN, "--option", "fault=odd", "--tasks", "4", "--json", "--store", store]
    run = json.loads(turnwise(*evaluation).out)["run"]
    shown = turnwise("runs", "show", run, "--store", store).out
    assert "trajectories  completed 2, env_error 4\n" in shown
    named = {line.split()[0] for line in shown.splitlines()}
    assert named == {"id", "kind", "status", "created_at", "ended_at", "policy", "trajectories", "success"}
    assert json.loads(turnwise("runs", "show", run, "--json", "--store", store).out)["statuses"] == {
        "completed": 2,
        "env_error": 4,
    }


def test_an_episode_that_never_began_does_not_match(turnwise: Turnwise, store: str) -> None:
    played = ["--env", BROKEN, "--tasks", "4", "--json", "--store", store]
    none = json.loads(turnwise("eval", "--option", "fault=reset", *played).out)["run"]
    ended = turnwise("trajectories", "replay", "--run", none, "--store", store)
    assert ended.code == 2
    assert f"run {none} has nothing to replay" in ended.err
    half = json.loads(turnwise("eval", "--option", "fault=odd", *played).out)["run"]
    ended = turnwise("trajectories", "replay", "--run", half, "--store", store)
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "2 of 2 match")
    failed = turnwise("trajectories", "list", "--run", half, "--status", "env_error", "--ids", "--store", store).out
    ended = turnwise("trajectories", "replay", *failed.split()[:2], "--run", half, "--store", store)
    assert ended.code == 1
    assert ended.out.count("nothing to re-execute: the episode ended as env_error before its first step") == 2
    assert "2 of 4 match" in ended.out


def test_an_unknown_policy_is_reported(turnwise: Turnwise, store: str) -> None:
    database = open_database(store, create=True)
    with database.transaction() as tx:
        operations.create_run(tx, run="pick", config={}, config_hash="p", kind="train", code_version="c")
    database.close()
    for name, near in (("randm", "random"), ("orcle", "oracle"), ("pikc", "pick")):
        ended = turnwise("eval", "--env", ENV, "--policy", name, "--store", store)
        assert ended.code == 2
        assert f"--policy {name} (did you mean {near!r}?): neither random, oracle, human, a run of" in ended.err


def test_a_person_plays_from_the_terminal(
    turnwise: Turnwise, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions = tmp_path / "actions"
    actions.write_text(":hint\nback\n")
    with actions.open() as typed:
        monkeypatch.setattr("sys.stdin", typed)
        pool = ["--option", "pool_size=1", "--split", "train"]
        shown = turnwise("eval", "--policy", "human", "--env", ENV, *pool, "--tasks", "5", "--store", store).out
    assert shown.startswith("task 1 of 1\n")
    assert "left after 1 turns" in shown


def test_a_killed_evaluation_is_interrupted(turnwise: Turnwise, store: str) -> None:
    open_database(store, create=True).close()
    command = [sys.executable, "-m", "turnwise.console.app", "eval", "--env", ENV, "--tasks", "20000"]
    playing = subprocess.Popen([*command, "--store", store], stderr=subprocess.PIPE, text=True)
    try:
        ends = monotonic() + 60
        while not (runs := json.loads(turnwise("runs", "list", "--json", "--store", store).out)):
            assert playing.poll() is None, playing.communicate()
            assert monotonic() < ends
        assert [(run["status"], run["driver"]) for run in runs] == [("running", "alive")]
    finally:
        playing.kill()
        playing.communicate(timeout=10)
    runs = json.loads(turnwise("runs", "list", "--json", "--store", store).out)
    assert [(run["status"], run["driver"]) for run in runs] == [("interrupted", "gone")]


def test_a_named_evaluation_plays_several_environments_and_reports_each(turnwise: Turnwise, store: str) -> None:
    played = ("--policy", "oracle", "--tasks", "6", "--name", "two", "--json", "--store", store)
    result = json.loads(turnwise("eval", "--env", ENV, "--env", "turnwise/GuessNumber-v0", *played).out)
    assert (result["run"], result["tasks"], result["success"]) == ("two", 6, 1.0)
    assert {name: one["success"] for name, one in result["by_environment"].items()} == {
        ENV: 1.0,
        "turnwise/GuessNumber-v0": 1.0,
    }
    again = turnwise("eval", "--env", ENV, *played)
    assert again.code == 2
    assert "`--name two`: the store has a run of this name; choose another one" in again.err


def test_several_samples_per_task_give_pass_at_k_and_intervals_by_environment(turnwise: Turnwise, store: str) -> None:
    """The random policy guesses one of three numbers, so that some samples of a task succeed and others do not."""
    played = ("--policy", "random", "--tasks", "12", "--samples", "4", "--turns", "2", "--store", store)
    two = ("--env", ENV, "--env", "turnwise/GuessNumber-v0")
    shown = turnwise("eval", *two, *played, "--name", "k").out
    result = json.loads(turnwise("runs", "show", "k", "--json", "--store", store).out)
    rate, by_environment = result["rate"], result["by_environment"]
    assert (rate["tasks"], rate["episodes"]) == (12, 48)
    assert rate["low"] < rate["success"] < rate["high"]
    assert (
        rate["pass_all"]["4"]
        <= rate["pass_all"]["2"]
        <= rate["success"]
        <= rate["pass_at"]["2"]
        <= rate["pass_at"]["4"]
    )
    assert {name: (one["tasks"], one["episodes"]) for name, one in by_environment.items()} == {
        ENV: (6, 24),
        "turnwise/GuessNumber-v0": (6, 24),
    }
    again = turnwise("runs", "show", "k", "--store", store).out
    interval = f"{rate['success']:.1%} [{rate['low']:.1%}, {rate['high']:.1%}] (95% interval)"
    for out in (shown, again):
        assert re.search(f"^success +{re.escape(interval)}$", out, re.MULTILINE)
        assert re.search(f"^pass@k +k=2 {rate['pass_at']['2']:.1%}, k=4 {rate['pass_at']['4']:.1%}$", out, re.MULTILINE)
        table = out.partition("\n\n")[2].splitlines()
        assert re.split(" {2,}", table[0]) == ["environment", "tasks", "success, 95% interval", "pass@k", "pass^k"]
        assert len(table) == 3
        assert max(map(len, table)) <= 80
    compared = turnwise("runs", "compare", "k", "k", "--store", store).out
    assert re.search(f" pass@4 {rate['pass_at']['4']:.2f} ", compared)
    assert "success, 95% interval" in compared


def test_an_evaluation_plays_the_mixture_of_a_configuration(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    """Also with its ``[rollout]``, as far as episodes are played with it."""
    example = str(tmp_path / "example.toml")
    own = '[rollout]\nscreenshots = "all"\ntemperature = 0.5\nstep_timeout_s = 7\n'
    Path(example).write_text((ROOT / "examples" / "quickstart.toml").read_text().replace("[rollout]\n", own))
    ended = turnwise("eval", example, "--policy", "oracle", "--tasks", "6", "--json", "--store", store)
    by_environment = json.loads(ended.out)["by_environment"]
    assert {name: one["success"] for name, one in by_environment.items()} == {"find": 1.0, "login": 1.0, "open": 1.0}
    with open_database(store).read() as conn:
        config = queries.find_run(conn, json.loads(ended.out)["run"]).config
    found = {key: config["rollout"][key] for key in ("screenshots", "temperature", "step_timeout_s", "group_size")}
    assert found == {"screenshots": "all", "temperature": 0.5, "step_timeout_s": 7, "group_size": 8}
    for arguments in ((), (example, "--env", ENV)):
        assert "give one or several `--env ID`, or one `CONFIG.toml`" in turnwise("eval", *arguments).err
