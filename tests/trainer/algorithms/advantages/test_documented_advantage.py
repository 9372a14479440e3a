"""The advantage of examples/components computes what it states."""

from pathlib import Path

import pytest
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.config.loading import parse_config

EXAMPLE = Path(__file__).parents[4] / "examples" / "components" / "credit.py"


def test_the_advantage_shown_weighs_groups_by_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "documented_credit.py").write_bytes(EXAMPLE.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_credit:Adora", "low_weight": 0.5}
    advantage = parse_config({"name": "t", "environments": [{"id": "e"}], "advantage": chosen}).advantage
    # Successes of 2, 1 and 2 turns, failures of 1, 2 and on average 2.5 turns; below, failures of 1.5 turns.
    groups = [scored_group(one) for one in ([[0, 1], [0]], [[1], [0, 0]], [[0, 1], [0, 1], [0], [0] * 4])]
    lower = scored_group([[0, 1], [0, 1], [0], [0, 0]])
    found = [[turns[0] for turns in one] for one in advantage([*groups, lower])]
    expected = [[1, -1], [0.5, -0.5], [0.5, 0.5, -0.5, -0.5], [1, 1, -1, -1]]
    assert [pytest.approx(one, abs=1e-5) for one in expected] == found
    assert [len(turns) for turns in advantage([groups[2]])[0]] == [2, 2, 1, 4]
