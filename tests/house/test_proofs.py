"""`make soak` proves every published method, selects it by valid keys, and its metrics are explained."""

import inspect
import re
import sys
from pathlib import Path

import pytest
from turnwise.tests.chaos.harness import CONFIG
from turnwise.tests.house.test_reference import REFERENCE
from turnwise.tests.soak.methods import METHODS
from turnwise.tests.soak.proofs import COMMON
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.registry import component_class, component_name, component_names
from turnwise.trainer.config.loading import PRESETS, load_config, preset_names

METRICS = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "metrics.md").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_a_proof_has_a_valid_configuration(name: str) -> None:
    method = METHODS[name]
    config = load_config(CONFIG, [*COMMON, *method.keys])
    assert config.digest() != load_config(CONFIG, [*COMMON]).digest(), "the keys change nothing"
    assert not method.state or method.state in dict(config.components())
    assert set(method.metrics) <= set(re.findall(r"`([\w/.]+)`", METRICS))


def test_every_published_method_has_a_proof() -> None:
    configs = [load_config(CONFIG, [*COMMON, *method.keys]) for method in METHODS.values()]
    proven = {(one.slot, component_name(type(one))) for config in configs for _, one in config.components()}
    published = {(base.slot, name) for base in SLOTS for name in component_names(base) if is_published(base, name)}
    assert len(published) > 20
    assert published - proven == set()


def test_every_published_preset_has_a_proof() -> None:
    keys = {key for method in METHODS.values() for key in method.keys}
    cited = {
        name: REFERENCE.sources_of(REFERENCE.comment((PRESETS / f"{name}.toml").read_text())) for name in preset_names()
    }
    assert {name for name, source in cited.items() if source != "ours" and f'preset="{name}"' not in keys} == set()


def is_published(base: type[Component], name: str) -> bool:
    """Return whether the file of a method cites a paper."""
    text = inspect.getdoc(sys.modules[component_class(base, name).__module__]) or ""
    return REFERENCE.sources_of(text) not in ("", "ours")
