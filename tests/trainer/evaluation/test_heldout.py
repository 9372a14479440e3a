"""An evaluation labels the environments of its mixture, and counts successes by verdict, or without one by return."""

from typing import Any

import pytest
from turnwise.records import Outcome, Status
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.evaluation.heldout import held_out, labels, summarize

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


@pytest.mark.parametrize(
    ("status", "verdict", "reward", "success"),
    [
        (Status.COMPLETED, None, 0.5, 1.0),
        (Status.COMPLETED, None, 0.4, 0.0),
        (Status.COMPLETED, False, 0.65, 0.0),
        (Status.COMPLETED, True, -0.1, 1.0),
        (Status.TRUNCATED, None, 0.65, 0.0),
        (Status.TRUNCATED, True, 0.0, 1.0),
    ],
)
def test_the_return_counts_only_without_a_verdict(
    status: Status, verdict: bool | None, reward: float, success: float
) -> None:
    mixture = [EnvironmentConfig(id=SITE)]
    (task,) = held_out(mixture, 1)
    played = [(task, Outcome("t", 0, 0, status, reward, verdict, 4, 8, ""))]
    result = summarize("after", "r", mixture, played, 1, 1.0)
    assert (result.success, result.by_environment) == (success, {SITE: success})


def test_truncated_episodes_without_a_verdict_are_failures() -> None:
    mixture = [EnvironmentConfig(id=SITE, options={"family": family}) for family in ("find", "open")]
    played = [
        (task, Outcome(f"t{index}", 0, 0, Status.TRUNCATED, 0.0, None, 4, 8, ""))
        for index, task in enumerate(held_out(mixture, 4))
    ]
    result = summarize("after", "r", mixture, played, 4, 1.0)
    assert (result.success, result.by_environment) == (0.0, {"find": 0.0, "open": 0.0})
    assert (result.tasks, result.failed) == (4, 0)
    assert 0.0 <= result.low < result.high < 1.0
