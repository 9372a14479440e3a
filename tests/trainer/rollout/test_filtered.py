"""The filtered groups are counted by reason, with the mean of their returns."""

from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.rollout.filtered import FilterTally


def test_a_text_names_each_reason_since_a_moment() -> None:
    tally = FilterTally()
    tally.add("zero_variance: all returns equal", scored_group([[1.0], [1.0]]))
    before = dict(tally.by_reason)
    assert tally.text(before) == "0 filtered"
    for _ in range(3):
        tally.add("zero_variance: all returns equal", scored_group([[-0.02, -0.02], [-0.04]]))
    tally.add("own: too short", scored_group([[0.5], [0.0]]))
    assert tally.text(before) == (
        "4 filtered (3 zero_variance: all returns equal, mean return -0.04; 1 own: too short, mean return 0.25)"
    )
