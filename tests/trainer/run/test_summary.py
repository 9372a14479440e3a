"""The gain of a run is defined between evaluations that were played alike."""

from dataclasses import replace

from turnwise.records import GroupState
from turnwise.store.queries.run_details import FilteredGroups
from turnwise.trainer.run.summary import _gain, _hint
from turnwise.trainer.telemetry.events import EvalResult


def test_evaluations_with_other_settings_have_no_gain() -> None:
    before = EvalResult("warmup", "r", 10, 0, 0, 0.2, 0.1, 0.3, 0.2, 4.0, samples=2, temperature=1.0)
    after = replace(before, name="after", success=0.5, low=0.4, high=0.6)
    assert _gain(before, after)[0] == 0.3
    for played in ({"samples": 4}, {"temperature": 0.0}):
        assert _gain(before, replace(after, **played)) == (None, None, None)


def test_most_groups_without_a_signal_have_a_remedy() -> None:
    filtered = [
        FilteredGroups("ZeroVariance: all returns equal", 934, 0.6, 680, 250),
        FilteredGroups("other", 900, 0, 0, 0),
    ]
    hint = _hint(filtered, {GroupState.CONSUMED: 560, GroupState.FILTERED: 934})
    assert hint.startswith(
        "934 of 1,494 groups were played and not trained on, because all their returns are equal (680 all"
    )
    assert hint.endswith("end the run, or train on harder ones")
    unsolved = [replace(filtered[0], solved=250, unsolved=680)]
    assert "a longer `sft_warmup`" in _hint(unsolved, {GroupState.FILTERED: 934})
    neither = [replace(filtered[0], solved=470, unsolved=460)]
    assert "a larger `rollout.group_size`" in _hint(neither, {GroupState.FILTERED: 934})
    assert _hint(filtered, {GroupState.CONSUMED: 934, GroupState.FILTERED: 934}) == ""
    assert _hint([], {}) == ""
