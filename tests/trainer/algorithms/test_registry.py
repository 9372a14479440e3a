"""Find components by file name, or by import path for a class outside turnwise."""

import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from turnwise.records import ScoredGroup
from turnwise.trainer.algorithms.advantages.base import GroupAdvantage
from turnwise.trainer.algorithms.algorithm_set import SLOTS, AlgorithmSet
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.groups import PerTurn
from turnwise.trainer.algorithms.registry import component_class, component_name, component_names
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import load_config, parse_config

EXAMPLES = Path(__file__).parents[3] / "examples"
REQUIRED = {
    "llm_judge": {"url": "http://127.0.0.1:1/v1", "model": "m", "rubric": "r"},
    "checker": {"function": "math:floor"},
}
"""Options without a default."""


class Half(GroupAdvantage):
    """An estimator outside turnwise."""

    scale: float = 0.5

    def of_group(self, scored: ScoredGroup) -> PerTurn:
        return [[self.scale * reward for reward in turns] for turns in scored.rewards]


class NotAComponent:
    """Not a subclass of a component."""


@pytest.mark.parametrize("base", SLOTS, ids=lambda base: base.slot)
def test_every_component_builds_serializes_and_keeps_its_state(base: type[Component]) -> None:
    names = component_names(base)
    assert names
    for name in names:
        one = base.build({"name": name, **REQUIRED.get(name, {})})
        assert component_name(type(one)) == name
        assert base.build(one.model_dump()).model_dump() == one.model_dump()
        one.load_state_dict(one.state_dict())
        assert base.__doc__
        assert type(one).__doc__


def test_every_slot_is_a_field_with_its_default() -> None:
    assert [base.slot for base in SLOTS] == list(AlgorithmSet.model_fields)
    for base in SLOTS:
        assert base.default == "" or component_class(base, base.default)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_states_of_all_components_are_restored(example: Path) -> None:
    algorithms = AlgorithmSet.of(load_config(example))
    algorithms.load_component_states(algorithms.component_states(), 7, 0)
    assert algorithms.observed == 7


def parsed(name: str, **options: Any) -> Any:
    chosen = {"name": name, **options}
    return parse_config({"name": "t", "environments": [{"id": "e"}], "advantage": chosen}).advantage


def test_a_class_outside_turnwise_is_found_by_its_import_path() -> None:
    own = parsed(f"{__name__}:Half", scale=0.25)
    assert type(own) is Half
    assert own.model_dump() == {"name": f"{__name__}:Half", "scale": 0.25}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module:Thing", "for a file in the working directory, run `PYTHONPATH=. turnwise …`"),
        (f"{__name__}:Absent", "cannot be imported"),
        (":Half", "cannot be imported"),
        (f"{__name__}:NotAComponent", "is not a `AdvantageEstimator`: subclass"),
        (f"{__name__}:component_names", "is not a `AdvantageEstimator`: subclass"),
        ("turnwise.trainer.algorithms.losses.decoupled_ppo:DecoupledPPO", "is not a `AdvantageEstimator`"),
        ("turnwise.trainer.algorithms.advantages.base:AdvantageEstimator", "implement its abstract methods"),
    ],
)
def test_an_unsuitable_class_is_rejected_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=r"`advantage\.name`") as caught:
        parsed(name)
    assert reason in str(caught.value)


def test_a_component_is_imported_only_when_it_is_chosen() -> None:
    code = (
        "import sys; from turnwise.trainer.config.loading import parse_config;"
        "raw = {'name': 't', 'environments': [{'id': 'e'}]};"
        "loaded = lambda: 'turnwise.trainer.algorithms.advantages.turn_return' in sys.modules;"
        "parse_config(raw); first = loaded(); parse_config({**raw, 'advantage': {'name': 'turn_return'}});"
        "print(first, loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_operational_options_are_excluded_from_the_mathematics_of_a_component() -> None:
    class Timed(Half):
        operational: ClassVar[frozenset[str]] = frozenset({"timeout_s"})
        timeout_s: float = 1.0

    assert Timed(timeout_s=2.0).mathematics() == Half().mathematics() | {"name": component_name(Timed)}
    assert Timed(scale=2.0).mathematics()["scale"] == 2.0
