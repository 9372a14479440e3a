"""The gain of a run is defined between evaluations that were played alike."""

from dataclasses import replace

from turnwise.trainer.run.summary import _gain
from turnwise.trainer.telemetry.events import EvalResult


def test_evaluations_with_other_settings_have_no_gain() -> None:
    before = EvalResult("warmup", "r", 10, 0, 0, 0.2, 0.1, 0.3, 0.2, 4.0, samples=2, temperature=1.0)
    after = replace(before, name="after", success=0.5, low=0.4, high=0.6)
    assert _gain(before, after)[0] == 0.3
    for played in ({"samples": 4}, {"temperature": 0.0}):
        assert _gain(before, replace(after, **played)) == (None, None, None)
