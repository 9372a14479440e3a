"""``runs lineage``, ``trajectories lineage`` and ``runs retrain`` on a past run of a tiny model in a real store."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from turnwise.console.viewer.pages.episode.token_strip import SHADES
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.trainer.run.past_runs import GROUPS, MEMBERS, TURNS, Process, past_run, tiny_model
from turnwise.trainer.evaluation.session import _run_name
from turnwise.trainer.evaluation.stored_policy import named_policy, stored_checkpoint
from turnwise.trainer.preflight.refusal import Command

from ..conftest import Turnwise


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a store with a run of two updates."""
    folder = tmp_path_factory.mktemp("past")
    model = tiny_model(folder / "model")
    return past_run(folder, {}, lambda stage: Process(stage, {}, model).train(0, 2))


def read(turnwise: Turnwise, trained: str, *arguments: str) -> Any:
    ended = turnwise(*arguments, "--json", "--store", trained)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_an_update_names_its_batch_down_to_the_tokens(turnwise: Turnwise, trained: str) -> None:
    found = read(turnwise, trained, "runs", "lineage", "r", "2", "--tokens")
    assert (found["version"], found["parent"], len(found["weights_hash"])) == (2, 1, 64)
    assert [group["id"] for group in found["groups"]] == ["g2", "g3"]
    assert all(group["fresh"] for group in found["groups"])
    assert [one["trajectory"] for one in found["members"]] == [f"g{g}-{m}" for g in (2, 3) for m in range(MEMBERS)]
    database = open_database(trained)
    stored = queries.load_trajectory(database, "g2-0")
    database.close()
    member = found["members"][0]
    assert member["tokens_trained"] == sum(len(step["tokens"]) for step in member["steps"])
    assert member["fresh"]
    for step, turn in zip(member["steps"], stored.steps, strict=True):
        message = stored.messages[turn.message or 0]
        assert step["action"] == turn.action
        assert [token["id"] for token in step["tokens"]] == list(message.tokens)
        assert [token["sampled_logprob"] for token in step["tokens"]] == pytest.approx(list(message.logprobs))
        for token in step["tokens"]:
            assert (token["version"], token["staleness"], token["weight"]) == (1, 0, 1.0)
            assert token["trained_logprob"] == pytest.approx(token["proximal_logprob"])
            assert token["trained_logprob"] < 0
            assert token["advantage"] == pytest.approx(member["mean_advantage"])


def test_one_trajectory_of_an_update_is_printed_turn_by_turn(turnwise: Turnwise, trained: str) -> None:
    out = turnwise("runs", "lineage", "r", "1", "--trajectory", "g0-1", "--store", trained).out
    assert f"groups         {GROUPS}\n" in out
    assert out.count("  > click ") == TURNS
    assert out.count("sampled logprob -") == TURNS
    assert "g0-0" not in out
    whole = turnwise("runs", "lineage", "r", "1", "--store", trained).out
    assert "g0-0" in whole
    assert "  > click " not in whole
    assert "proximal logprob" in turnwise("runs", "lineage", "r", "1", "--tokens", "--store", trained).out


def test_the_tokens_of_a_trajectory_have_their_text_and_the_values_of_its_update(
    turnwise: Turnwise, trained: str
) -> None:
    found = read(turnwise, trained, "trajectories", "show", "g2-1", "--tokens")
    (member,) = read(turnwise, trained, "runs", "lineage", "r", "2", "--trajectory", "g2-1", "--tokens")["members"]
    database = open_database(trained)
    stored = queries.load_trajectory(database, "g2-1")
    database.close()
    assert (found["tokens"]["run"], found["tokens"]["update"], found["tokens"]["note"]) == ("r", 2, "")
    assert found["training"] == "update 2 of run r"
    rows = [row for turn in found["tokens"]["turns"] for row in turn["tokens"]]
    assert [row["id"] for row in rows] == [int(token) for one in stored.messages for token in one.tokens]
    assert [row["mask"] for row in rows] == [int(mask) for one in stored.messages for mask in one.mask]
    tokenizer = json.loads((Path(trained.removeprefix("sqlite:///")).parent / "r/tokenizer/tokenizer.json").read_text())
    assert [tokenizer["model"]["vocab"][row["text"]] for row in rows] == [row["id"] for row in rows]
    sampled = [row for row in rows if row["mask"]]
    trained_on = [token for step in member["steps"] for token in step["tokens"]]
    for name, other in [("logprob", "sampled_logprob")] + [
        (one, one) for one in ("text", "version", "advantage", "entropy", "staleness")
    ]:
        assert [row[name] for row in sampled] == [token[other] for token in trained_on], name
    for row, token in zip(sampled, trained_on, strict=True):
        weight = math.exp(token["proximal_logprob"] - token["sampled_logprob"])
        assert row["importance_weight"] == pytest.approx(weight)
        assert row["mismatch"] == token["trained_logprob"] - token["sampled_logprob"]
        assert 0 < row["entropy"] <= math.log(len(tokenizer["model"]["vocab"])) + 1e-3
    assert all(row["advantage"] is row["logprob"] is row["version"] is None for row in rows if not row["mask"])
    (turn,) = read(turnwise, trained, "trajectories", "show", "g2-1", "--tokens", "--turn", "1")["tokens"]["turns"]
    assert turn == found["tokens"]["turns"][1]
    out = turnwise("trajectories", "show", "g2-1", "--tokens", "--turn", "1", "--store", trained).out
    lines = [line.split() for line in out.splitlines()]
    assert lines[3][0] == "advantage"
    assert lines[4][:6] == ["id", "text", "source", "mask", "logprob", "version"]
    assert [line[:2] for line in lines[5:]] == [[str(row["id"]), repr(row["text"])] for row in turn["tokens"]]


def test_the_viewer_shades_a_trained_episode_by_every_value(trained: str) -> None:
    database = open_database(trained, read_only=True)
    strip = client_of(database).get("/api/trajectories/g2-1?view=tokens").json()["strip"]
    assert client_of(database).get("/trajectories/g2-1?view=tokens&shade=entropy").status_code == 200
    database.close()
    assert (strip["shades"], strip["missing"]) == (list(SHADES), "")


def test_the_parts_of_the_reward_are_metrics_of_an_update(turnwise: Turnwise, trained: str) -> None:
    assert read(turnwise, trained, "runs", "show", "r")["last_metrics"]["reward_part/shape"] == 0.5 * TURNS
    assert "reward parts  shape 1\n" in turnwise("runs", "show", "r", "--store", trained).out


def test_a_trajectory_names_the_updates_it_went_into(turnwise: Turnwise, trained: str) -> None:
    found = read(turnwise, trained, "trajectories", "lineage", "g3-2")
    (use,) = found["updates"]
    assert (use["run"], use["update"], use["version"], use["fresh"], use["abandoned"]) == ("r", 2, 2, True, False)
    assert (found["group_state"], found["versions"]) == ("consumed", {"1": 1})
    out = turnwise("trajectories", "lineage", "g3-2", "--store", trained).out
    assert "version 1 (update 1)" in out


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("runs", "rr", "1"), "no run rr in the store (did you mean 'r'?)"),
        (("runs", "r", "3"), "run r has no update 3 (did you mean 2?); it has updates 1 to 2"),
        (("runs", "r", "0"), "Invalid value for 'UPDATE': Input should be greater than or equal to 1"),
        (("runs", "r", "2", "--trajectory", "g2-9"), "did not train on trajectory g2-9 (did you mean 'g2-"),
        (("trajectories", "g2-9"), "no trajectory g2-9 in the store (did you mean 'g2-"),
    ],
)
def test_an_unknown_id_names_the_nearest_one(
    turnwise: Turnwise, trained: str, arguments: tuple[str, ...], error: str
) -> None:
    group, *others = arguments
    ended = turnwise(group, "lineage", *others, "--store", trained)
    assert ended.code == 2
    assert error in ended.err


def test_a_run_is_trained_again_from_its_store(turnwise: Turnwise, trained: str) -> None:
    out = turnwise("runs", "retrain", "r", "--store", trained)
    assert out.code == 0
    assert out.out.endswith("2 of 2 updates are equal, bit for bit, from update 1 on\n")
    found = read(turnwise, trained, "runs", "retrain", "r", "--last", "1")
    assert (found["equal"], found["total"], found["first_difference"]) == (1, 1, None)
    stored = read(turnwise, trained, "runs", "lineage", "r", "1")
    assert found["weights_hash"] == stored["weights_hash"]


def test_a_run_that_differs_ends_with_exit_code_1(turnwise: Turnwise, trained: str, tmp_path: Path) -> None:
    shutil.copytree(Path(trained.removeprefix("sqlite:///")).parent, tmp_path / "copy")
    copy = f"sqlite:///{tmp_path}/copy/turnwise.db"
    database = open_database(copy)
    with database.transaction() as tx:
        tx.conn.exec_driver_sql("UPDATE policy_version SET weights_hash = 'other' WHERE id = 2")
    database.close()
    ended = turnwise("runs", "retrain", "r", "--store", copy)
    assert ended.code == 1
    assert "update 2  version 2  differs" in ended.out
    assert "1 of 2 updates are equal" in ended.out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("eval --env turnwise/TextSite-v0 --policy r@9", "run r has no checkpoint of update 9; it has those of 0"),
        ("eval --env turnwise/TextSite-v0 --policy q@1", "no run q in the store"),
        (
            "eval --env turnwise/TextSite-v0 --policy q",
            "--policy q: neither random, oracle, human, a run of this store",
        ),
        ("runs fork r@x", "run r has no checkpoint of update x; it has those of 0"),
        ("runs fork r@0 --name r --set learner.lerning_rate=1", "`learner.lerning_rate`: unknown key"),
        ("model merge r merged", "checkpoints/0` holds no LoRA adapter"),
        ("model merge checkpoints/9 merged", "there is neither a folder `checkpoints/9` nor a run of this name"),
    ],
)
def test_a_checkpoint_is_named_by_its_run_and_its_update(
    turnwise: Turnwise, trained: str, words: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").mkdir()  # a folder without a model hides no run
    ended = turnwise(*words.split(), "--store", trained)
    assert ended.code == 2
    assert error in ended.err


def test_a_checkpoint_whose_folder_was_pruned_is_refused_before_anything_starts(
    turnwise: Turnwise, trained: str, tmp_path: Path
) -> None:
    shutil.copytree(Path(trained.removeprefix("sqlite:///")).parent, tmp_path / "copy")
    copy = f"sqlite:///{tmp_path}/copy/turnwise.db"
    database = open_database(copy)
    with database.transaction() as tx:
        tx.conn.exec_driver_sql("UPDATE policy_version SET checkpoint = '/gone' WHERE id = 2")
    database.close()
    forked = turnwise("runs", "fork", "r@2", "--name", "f", "--store", copy)
    played = turnwise("eval", "--env", "turnwise/TextSite-v0", "--policy", "r@2", "--store", copy)
    gone = (
        "the checkpoint of update 2 of run r, `/gone`, is gone: restore the folder from a copy, or name its new place "
        "by `--runs`, or name one of `r@0`"
    )
    for ended in (forked, played):
        assert (ended.code, ended.err) == (2, f"turnwise: {gone}\n")
    assert "it has those of 0\n" in turnwise("runs", "fork", "r@9", "--store", copy).err
    assert turnwise("runs", "show", "f", "--store", copy).code == 2


def test_a_run_stands_for_its_newest_checkpoint(trained: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").mkdir()  # such as the package of an environment: a folder without a model
    of_another_store = tmp_path / "another" / "r"
    (of_another_store / "checkpoints").mkdir(parents=True)
    database = open_database(trained)
    with database.read() as conn:
        (saved,) = queries.checkpoints(conn, "r")
    named = {name: stored_checkpoint(database, name) for name in ("r", "r@0", "random", "q", "http://r/v1", ".")}
    assert stored_checkpoint(database, str(of_another_store)) is None
    policy = named_policy(database, "r", 0, "")
    assert (policy.name, policy.shown) == (saved.checkpoint, "r@0")
    assert re.match(r"eval-r-0-\d", _run_name(Command.EVAL, policy))
    database.close()
    assert named == {"r": saved, "r@0": saved} | dict.fromkeys(("random", "q", "http://r/v1", "."))
