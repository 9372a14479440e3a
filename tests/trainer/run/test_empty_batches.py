"""A run ends after ten batches of stale tokens; for batches that a replay buffer left out, the limit is higher."""

import pytest
from turnwise.errors import TurnwiseError
from turnwise.trainer.run.loop import MAX_LEFT_OUT_BATCHES, MAX_STALE_BATCHES, EmptyBatches


@pytest.mark.parametrize(("left_out", "limit"), [(False, MAX_STALE_BATCHES), (True, MAX_LEFT_OUT_BATCHES)])
def test_the_last_batch_in_a_row_ends_the_run(left_out: bool, limit: int) -> None:
    empty = EmptyBatches()
    for _ in range(2):
        for _ in range(limit - 1):
            empty.add("too stale", left_out=left_out)
        empty.reset()
    for _ in range(limit - 1):
        empty.add("too stale", left_out=left_out)
    with pytest.raises(TurnwiseError, match=f"{limit} consecutive batches .* the last: too stale"):
        empty.add("too stale", left_out=left_out)


def test_each_kind_is_counted_by_itself() -> None:
    empty = EmptyBatches()
    for _ in range(MAX_LEFT_OUT_BATCHES - 1):
        empty.add("left out", left_out=True)
    for _ in range(MAX_STALE_BATCHES - 1):
        empty.add("too stale", left_out=False)
    with pytest.raises(TurnwiseError, match="10 consecutive"):
        empty.add("too stale", left_out=False)
