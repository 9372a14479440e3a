"""The loop reports each limit that cuts too much once; the reporter of a run writes it into the log."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from turnwise.records import Limit
from turnwise.trainer.run.loop import TrainingLoop


@pytest.mark.parametrize("name", ["unscored_fraction", "rewards/unscored_fraction"])
def test_a_judge_without_scores_is_reported_once(name: str) -> None:
    reported: list[Any] = []
    context: Any = SimpleNamespace(report=reported.append)
    nothing: Any = None
    loop = TrainingLoop(context, nothing, nothing, nothing)
    for share in (0.1, 0.25, 0.5):
        loop._warn_of_unscored(cast(Any, SimpleNamespace(metrics={name: share, "loss": 1.0}, update=3)))
    (note,) = reported
    assert note.text.startswith("update 3: a judge gave no score to 25% of the episodes (`unscored_fraction`)")


def test_a_limit_that_cuts_too_much_is_reported_once_and_not_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reported: list[Any] = []
    context: Any = SimpleNamespace(config=SimpleNamespace(), report=reported.append)
    nothing: Any = None
    loop = TrainingLoop(context, nothing, nothing, nothing)
    event: Any = SimpleNamespace(limits={Limit.TOKENS_PER_TURN: 0.5}, update=3)
    for _ in range(2):
        loop._warn_of_limits(event)
    (note,) = reported
    assert "max_tokens_per_turn" in note.text
    assert caplog.text == ""
