"""The worked examples of docs/algorithms.md train, and stay short."""

import re
from pathlib import Path
from random import Random

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.local import Learner

PAGE = Path(__file__).parents[3] / "docs" / "algorithms.md"
LOSS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text().split("## Proximal policy")[0], re.MULTILINE | re.DOTALL)


def test_the_loss_shown_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = LOSS
    assert len(code.splitlines()) <= 30
    (tmp_path / "documented_losses.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_losses:CISPO", "ratio_cap": 1.5}
    config = parse_config({"name": "t", "environments": [{"id": "e"}], "loss": chosen})
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2)
    learner = Learner(model, config.learner, config.loss, config.proximal, 1.0)
    metrics = learner.update(train_samples(0), 0.0, 0, Random(0))
    assert metrics["grad_norm"] > 0
    assert 0 < metrics["capped_fraction"] < 1
    assert metrics["ratio_max"] > 1.5
