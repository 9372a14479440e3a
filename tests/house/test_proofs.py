"""The methods that `make soak` proves are selected by valid keys, and their metrics are explained."""

import re
from pathlib import Path

import pytest
from turnwise.tests.chaos.harness import CONFIG
from turnwise.tests.soak.methods import METHODS
from turnwise.tests.soak.proofs import COMMON
from turnwise.trainer.config.loading import load_config

METRICS = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "metrics.md").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_a_proof_has_a_valid_configuration(name: str) -> None:
    method = METHODS[name]
    config = load_config(CONFIG, [*COMMON, *method.keys])
    assert config.digest() != load_config(CONFIG, [*COMMON]).digest(), "the keys change nothing"
    assert not method.state or method.state in dict(config.components())
    assert set(method.metrics) <= set(re.findall(r"`([\w/.]+)`", METRICS))
