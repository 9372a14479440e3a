"""Every method and every preset cites a paper in one form, or says that it is ours."""

import inspect
import re
import sys

import pytest
from turnwise.tests.house.test_reference import REFERENCE
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.registry import component_class, component_names
from turnwise.trainer.config.loading import PRESETS, preset_names

METHODS = [(base, name) for base in SLOTS for name in component_names(base)]
OTHER_FORM = re.compile(r"(?i)arxiv(?!:\d{4}\.\d{5})")


@pytest.mark.parametrize(("base", "name"), METHODS, ids=lambda value: getattr(value, "slot", value))
def test_a_method_cites_its_source(base: type[Component], name: str) -> None:
    text = inspect.getdoc(sys.modules[component_class(base, name).__module__]) or ""
    assert REFERENCE.sources_of(text) or name == base.default, (
        "cite as `(Hu 2025, arXiv:2501.03262)`, or `Source: ours.`"
    )
    assert OTHER_FORM.findall(text) == [], "write ids as `arXiv:2501.03262`"


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_cites_its_source(name: str) -> None:
    assert REFERENCE.sources_of(REFERENCE.comment((PRESETS / f"{name}.toml").read_text()))


LINK = "(https://arxiv.org/abs/2501.03262)"


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("REINFORCE++ (Hu 2025, arXiv:2501.03262): whitened.", f"[Hu 2025]{LINK}"),
        ("A method.\n\nSource: R, Hu et al. 2025,\narXiv:2501.03262, and code.", f"[R, Hu et al. 2025]{LINK}"),
        ("A (Hu 2025, arXiv:2501.03262) and B (A and B 2024).", f"[Hu 2025]{LINK}; A and B 2024"),
        ("Cloning (Pomerleau 1991, Neural Computation 3(1), 88-97).", "Pomerleau 1991"),
        ("A cost per turn.\n\nSource: ours.", "ours"),
        ("A cost per turn (equation 7).", ""),
    ],
)
def test_citations_are_found(text: str, sources: str) -> None:
    assert REFERENCE.sources_of(text) == sources
