"""``turnwise trajectories export`` and ``import``, from an oracle's episodes in one store to an update in another."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.renderer import Image
from turnwise.console.commands.exchange import CannotExchange, _encoder
from turnwise.envs import make
from turnwise.records import Group, Horizon, Source, Status, Step, Task, Trajectory
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.store.exchange.episodes import Episode
from turnwise.tests.agents.pictures import picture, png
from turnwise.tests.agents.players import SITE, Stage, on_stage
from turnwise.tests.store.exchange.atif.test_models import changed
from turnwise.tests.trainer.algorithms.replay.test_demonstrations import ready, recorded, update_step
from turnwise.tests.trainer.playing import FIRST
from turnwise.trainer.telemetry import progress

from ..conftest import ENV, Turnwise

OPTIONS = ["--option", "family=find", "--option", "pool_size=3"]


@pytest.mark.parametrize(("kind", "name"), [("parquet", "x.parquet"), ("atif", "documents")])
def test_episodes_of_an_oracle_are_experts_in_an_empty_store(
    turnwise: Turnwise, tmp_path: Path, kind: str, name: str
) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    recorded(home)
    files = str(tmp_path / name)
    shown = turnwise(
        "trajectories",
        "export",
        "--source",
        "expert",
        "--format",
        kind,
        "--out",
        files,
        "--store",
        f"{home}/turnwise.db",
    )
    assert shown.code == 0, shown.err
    given = json.loads(
        turnwise("trajectories", "import", files, "--name", "shared", "--store", f"{away}/turnwise.db", "--json").out
    )
    assert given == {"run": "shared", "added": 3, "skipped": 0}
    again = json.loads(
        turnwise("trajectories", "import", files, "--name", "shared", "--store", f"{away}/turnwise.db", "--json").out
    )
    assert again == {"run": "shared", "added": 0, "skipped": 3}

    async def scenario(stage: Stage) -> None:
        await ready(stage)
        step = update_step(stage, "behavior_cloning", run="shared", count=2)
        trained = await step.update(await step.lease(), FIRST, 0.0, 0.0)
        assert trained is not None
        assert set(trained.metrics["tokens_by_source"]) == {"expert"}
        assert trained.metrics["replay_buffer/demonstrations"] == 3

    on_stage(away, scenario)
    replayed = turnwise("trajectories", "replay", "--run", "shared", "--store", f"{away}/turnwise.db")
    assert replayed.out.splitlines()[-1] == "3 of 3 match"


def test_a_conversation_begins_with_the_instructions_of_its_environment(
    turnwise: Turnwise, store: str, tmp_path: Path
) -> None:
    out = tmp_path / "x.jsonl"
    shown = turnwise("trajectories", "export", "t0", "--format", "messages", "--out", str(out), "--store", store)
    assert shown.out.splitlines() == [
        f"written       {out}",
        "trajectories  1 (train truncated 1)",
        "steps         1",
        "with secrets  0 (replaced by ***)",
    ]
    first = json.loads(out.read_text())["messages"]
    turnwise(
        "trajectories",
        "export",
        "t0",
        "--format",
        "messages",
        "--no-instructions",
        "--overwrite",
        "--out",
        str(out),
        "--store",
        store,
    )
    assert [one["role"] for one in json.loads(out.read_text())["messages"]] == ["user", "assistant"]
    assert first[-2:] == json.loads(out.read_text())["messages"]


def test_a_document_of_another_program_is_encoded_by_the_given_tokenizer(turnwise: Turnwise, tmp_path: Path) -> None:
    model = tmp_path / "model"
    new_model(model, ["click", "look", "home"], hidden=16, heads=2, max_context=64)
    document = changed(lambda d: d["steps"][1].update(message="look home"))
    document["steps"][2].pop("metrics")
    (tmp_path / "a.json").write_text(json.dumps(document))
    url = f"sqlite:///{tmp_path}/turnwise.db"
    refused = turnwise("trajectories", "import", str(tmp_path / "a.json"), "--store", url)
    assert refused.code == 2
    assert "names no environment of turnwise: add `--env ID`" in refused.err
    done = turnwise(
        "trajectories",
        "import",
        str(tmp_path / "a.json"),
        "--env",
        SITE,
        *OPTIONS,
        "--tokenizer",
        str(model),
        "--store",
        url,
        "--json",
    )
    assert json.loads(done.out)["added"] == 1
    database = open_database(url)
    with database.read() as conn:
        (row,) = queries.list_trajectories(conn)
    found = queries.load_trajectory(database, row.id)
    database.close()
    assert row.run_id.startswith("import-")
    assert [message.source for message in found.messages] == [Source.TEMPLATE, Source.EXPERT]
    assert all(len(message.tokens) for message in found.messages)
    again = turnwise("trajectories", "import", str(tmp_path / "a.json"), "--env", SITE, *OPTIONS, "--store", url)
    assert "added                 0 (as demonstrations: without log-probabilities and versions)\n" in again.out
    shown = turnwise("trajectories", "show", row.id, "--brief", "--store", url).out
    assert "trained on    no: it is imported, as a demonstration, which `behavior_cloning` reads\n" in shown


def test_demonstrations_with_pictures_are_encoded(tmp_path: Path) -> None:
    words = [*make(ENV).vocabulary(), "click", "home"]
    model = new_vision_model(tmp_path / "model", words, hidden=32, heads=1, layers=1)
    encode = _encoder(model)
    one, other = png(56, 56, 1), png(84, 56, 2)
    contents = {Image.of(each).blob: each for each in (one, other)}
    steps = [
        Step(turn, "home", "", "click home", 0.0, {}, False, False, True, "", None, 0.0, 0.0, images=[name])
        for turn, name in enumerate(contents)
    ]
    task = Task("t", ENV, "", 0, "train")
    group = Group("g", "r", task, Horizon(2, 4, 64, 256), 1)
    trajectory = Trajectory("a", "r", "g", 0, 0, Status.COMPLETED, Source.EXPERT, steps=steps)
    made = encode(Episode(group, trajectory, images=contents))
    first, second = contents
    assert [list(message.images) for message in made.messages] == [[first], [], [second], []]
    long = replace(trajectory, steps=[replace(steps[0], index=turn) for turn in range(9)])
    for window, roots in ((None, [0, 16]), (4, [0, 8, 10, 12, 14, 16])):
        messages = _encoder(model, window)(Episode(group, long, images=contents)).messages
        assert [one.index for one in messages if one.parent is None] == roots
    unread = replace(trajectory, steps=[replace(steps[0], images=["0" * 64])])
    with pytest.raises(CannotExchange, match="trajectory a cannot be encoded: an image is no PNG"):
        encode(Episode(group, unread, images={"0" * 64: picture("RGB", kind="JPEG")}))


WRONG = [
    (["trajectories", "export", "--run", "dem", "--out", "x"], "did you mean 'demo'?"),
    (["trajectories", "export", "t9", "--out", "x"], "no trajectory t9 in the store"),
    (["trajectories", "import", "none.parquet"], "`none.parquet` does not exist"),
    (["trajectories", "import", "a.json", "--name", "../x"], "a run's name has at most 80 letters"),
    (["trajectories", "import", "a.json", "--option", "a=1"], "`--option` belongs to an environment: add `--env ID`"),
    (["trajectories", "import", "a.json", "--env", "none/None-v0"], "none/None-v0"),
    (
        ["trajectories", "import", "a.json", "--tokenizer", "nowhere"],
        "`--tokenizer nowhere`: no model folder at nowhere",
    ),
    (["trajectories", "import", "a.json", "--name", "demo", "--env", ENV], "a run `demo`, which is of kind `train`"),
]


def test_a_wrong_use_is_explained(
    turnwise: Turnwise, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(changed(lambda d: d["steps"][1].update(message="x"))))
    for arguments, reason in WRONG:
        ended = turnwise(*arguments, "--store", store)
        assert ended.code == 2
        assert reason in " ".join(ended.err.split())


def test_a_missing_package_names_the_extra(
    turnwise: Turnwise, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = turnwise("trajectories", "export", "--out", str(tmp_path / "x.parquet"), "--store", store)
    assert (ended.code, ended.err) == (
        2,
        'turnwise: Parquet needs pyarrow, which is not installed: run `pip install "turnwise[exchange]"`\n',
    )


def test_the_progress_of_a_long_export_and_of_a_long_replay_is_printed(
    turnwise: Turnwise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    store = ["--store", f"sqlite:///{tmp_path}/turnwise.db"]
    turnwise("eval", "--policy", "oracle", "--env", ENV, "--tasks", "2", "--name", "r", *store)
    written = turnwise("trajectories", "export", "--run", "r", "--out", str(tmp_path / "x.parquet"), *store)
    assert re.search(r"^1 of 2 trajectories written, about \d+ s remain$", written.err, re.MULTILINE)
    replayed = turnwise("trajectories", "replay", "--run", "r", *store)
    assert re.search(r"^1 of 2 trajectories executed again, about \d+ s remain$", replayed.err, re.MULTILINE)
