"""The replay buffer of examples/components reuses what it states, and docs/algorithms.md lists the whole reader."""

import dataclasses
import re
from pathlib import Path
from random import Random

import pytest
from turnwise.store.queries import RunReader
from turnwise.tests.store.making import play_scored, train
from turnwise.tests.trainer.algorithms.replay.replay_stores import replay_store, shown
from turnwise.trainer.config.loading import parse_config

PAGE = Path(__file__).parents[4] / "docs" / "algorithms.md"
EXAMPLE = Path(__file__).parents[4] / "examples" / "components" / "replay.py"
SECTION = PAGE.read_text().split("\n## Replay\n")[1].split("\n## ")[0]


def test_the_replay_buffer_shown_adds_the_previous_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = EXAMPLE.read_text()
    assert len(code.splitlines()) <= 30
    (tmp_path / "documented_replay.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_replay:PreviousGroup", "max_mean": 0.75}
    buffer = parse_config({"name": "t", "environments": [{"id": "e"}], "replay_buffer": chosen}).replay_buffer
    with replay_store(tmp_path) as (database, reader):
        for number, (returns, seed) in enumerate([((0.0, 1.0), 0), ((0.0, 0.5), 0), ((1.0, 1.0), 1)]):
            play_scored(database, f"old{number}", number, returns, seed=seed)
            train(database, [f"old{number}"], number + 1, number)
        for seed in (0, 1, 2):
            play_scored(database, f"new{seed}", 3 + seed, [0.0, 1.0], seed=seed)
        batch = buffer.batch(reader.load(["new0", "new1", "new2"]), reader, 3, Random(0))
    assert list(shown(batch)) == ["new0", "new1", "new2", "old1"]
    assert shown(batch)["old1"] == [("old1-0", "replay"), ("old1-1", "replay")]


def test_every_method_of_the_reader_is_described() -> None:
    fields = {field.name for field in dataclasses.fields(RunReader)}
    methods = {name for name in vars(RunReader) if not name.startswith("_")} - fields
    assert methods == set(re.findall(r"^\| `(\w+)\(", SECTION, re.MULTILINE))
