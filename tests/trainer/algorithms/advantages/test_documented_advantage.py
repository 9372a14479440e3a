"""The advantage shown in docs/algorithms.md computes what it states."""

import re
from pathlib import Path

import pytest
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.config.loading import parse_config

PAGE = Path(__file__).parents[4] / "docs" / "algorithms.md"
SECTION = PAGE.read_text().split("\n## Advantage\n")[1].split("\n## ")[0]


def test_the_advantage_shown_weighs_groups_by_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    (tmp_path / "documented_credit.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_credit:Adora", "low_weight": 0.5}
    advantage = parse_config({"name": "t", "environments": [{"id": "e"}], "advantage": chosen}).advantage
    longer, shorter = scored_group([[0, 1], [0]]), scored_group([[1], [0, 0]])
    assert advantage([longer, shorter]) == [[[0.5, 0.5], [-0.5]], [[0.25], [-0.25, -0.25]]]
