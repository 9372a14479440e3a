"""``envs check`` reads all rows of a data set."""

from typing import Any

import gymnasium
import pytest
from turnwise.envs.authoring.check import check
from turnwise.envs.authoring.checks import CHECKS
from turnwise.tests.envs.dataset.capitals import Capitals


def checked(monkeypatch: pytest.MonkeyPatch, *names: str, **attributes: Any) -> dict[str, str]:
    """Return what checks say of an environment like ``Capitals``."""
    made: Any = type("Checked", (Capitals,), attributes)
    monkeypatch.setattr("turnwise.envs.authoring.check.CHECKS", {name: CHECKS[name] for name in ("reset", *names)})
    gymnasium.register("dataset/Checked-v0", entry_point=made)
    try:
        return {one.check: f"{one.verdict}: {one.detail}" for one in check("dataset/Checked-v0").findings}
    finally:
        gymnasium.registry.pop("dataset/Checked-v0")


def test_all_rows_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [{"question": f"{n}?", "answer": str(n), "letters": 1} for n in range(30)]
    lacking = {"question": "?", "letters": 1}
    rows = {
        "train": [*train, lacking, lacking, {**train[0], "question": None}],
        "test": [{**train[0], "question": "other?"}, *train[8:5:-1]],
    }
    found = checked(monkeypatch, "tasks", load=lambda self, split: rows[split])["tasks"]
    lacks, null, shared, copies = found.splitlines()
    assert lacks.startswith("failed: 2 rows: ")
    assert "takes `answer`" in lacks
    assert "row 30 of `train`" in lacks
    assert null.startswith("1 rows: ")
    assert "row 32 of `train` has a NoneType in `question`" in null
    assert shared.startswith("3 rows of the 4 of `test` occur in `train` too, the first is row 1 of `test`")
    assert copies == "1 rows of `train` are copies"
    rows = {"train": [*train, train[0]], "test": [lacking | {"answer": "2"}]}
    found = checked(monkeypatch, "tasks", load=lambda self, split: rows[split])["tasks"]
    assert "; 1 rows of `train` are copies; " in found


def test_the_words_of_all_rows_are_in_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [{"question": f"{n} ?", "answer": str(n), "letters": 1} for n in range(30)]
    own: dict[str, Any] = {"load": lambda self, split: train if split == "train" else [{**train[0], "question": "?"}]}
    own |= {"valid_actions": lambda self: [(self.row["answer"], 1.0)]}
    words = [str(n) for n in range(30) if n not in (20, 25)]
    found = checked(monkeypatch, "tasks", "vocabulary", vocabulary=lambda self: words, **own)["vocabulary"]
    assert found == "failed: 3 words missing from vocabulary(), the first in row 0 of `train`: ?, 20, 25"
