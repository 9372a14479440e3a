"""An evaluation labels the environments of its mixture with short, distinct names."""

from typing import Any

import pytest
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.evaluation.heldout import labels

SITE, TINY = "turnwise/TextSite-v0", "turnwise/TinyWeb-v0"


@pytest.mark.parametrize(
    ("mixture", "expected"),
    [
        ([(SITE, {})], [SITE]),
        ([(SITE, {"family": "find"})], ["find"]),
        ([(SITE, {"family": "find"}), (SITE, {"family": "open"})], ["find", "open"]),
        ([(TINY, {"by": "site"})], [TINY]),
        ([(TINY, {"by": "site"}), (SITE, {"observation": "both"})], [TINY, SITE]),
        ([(TINY, {"by": "site"}), (TINY, {"by": "template"})], ["site", "template"]),
        (
            [(SITE, {"family": "mix"}), (TINY, {"family": "mix"})],
            [f'{env} {{"family": "mix"}}' for env in (SITE, TINY)],
        ),
    ],
)
def test_labels_are_families_then_other_options_then_all_options(
    mixture: list[tuple[str, dict[str, Any]]], expected: list[str]
) -> None:
    assert labels([EnvironmentConfig(id=env, options=options) for env, options in mixture]) == expected
