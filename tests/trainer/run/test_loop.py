"""The loop reports each limit that cuts too much once; the reporter of a run writes it into the log."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.records import Limit
from turnwise.trainer.run.loop import TrainingLoop


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
