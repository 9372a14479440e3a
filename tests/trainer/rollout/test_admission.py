"""Admission opens as many groups as both of its bounds allow."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.records import GroupState
from turnwise.trainer.rollout.admission import capacity

COUNT = st.integers(0, 100)


@given(COUNT, COUNT, COUNT, st.integers(1, 40), st.integers(0, 8), st.integers(1, 40))
def test_capacity_is_the_largest_number_within_both_bounds(
    running: int, ready: int, leased: int, concurrent: int, staleness: int, batch: int
) -> None:
    counts = {GroupState.OPEN: running, GroupState.READY: ready, GroupState.LEASED: leased, GroupState.CONSUMED: 999}
    room = capacity(counts, max_concurrent_groups=concurrent, max_staleness=staleness, groups_per_batch=batch)

    def fits(opened: int) -> bool:
        pending = running + ready + leased + opened
        return running + opened <= concurrent and pending <= (staleness + 1) * batch

    assert room >= 0
    assert room == 0 or fits(room)
    assert not fits(room + 1)


def test_staleness_zero_opens_exactly_one_batch() -> None:
    def room(counts: dict[GroupState, int]) -> int:
        return capacity(counts, max_concurrent_groups=99, max_staleness=0, groups_per_batch=16)

    assert room({}) == 16
    assert room({GroupState.LEASED: 16}) == 0
    assert room({GroupState.FILTERED: 16, GroupState.OPEN: 15}) == 1
