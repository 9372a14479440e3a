"""An environment that never worked ends the run; one that did is waited for, one try at a time."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.rollout.circuit_breaker import GIVE_UP_AFTER, OUTAGE_SECONDS, PAUSE_AFTER, SELDOM, Outage


def failing(times: int, *, worked: bool, now: float = 100.0) -> Outage:
    outage = Outage(worked=worked)
    for _ in range(times):
        outage.happened("the engine is down", now)
    return outage


def test_what_never_worked_is_given_up() -> None:
    assert failing(GIVE_UP_AFTER - 1, worked=False).hopeless(100.0) == ""
    assert "24 groups in a row failed, the last because the engine is down" in failing(24, worked=False).hopeless(100.0)
    assert failing(GIVE_UP_AFTER - 1, worked=False).room(5, 3, 100.0) == 5


def test_what_worked_is_tried_one_at_a_time_and_comes_back() -> None:
    outage = failing(PAUSE_AFTER - 1, worked=True)
    assert outage.room(5, 0, 100.0) == 5
    outage.happened("still down", 100.0)
    assert outage.lasts
    assert outage.room(5, 0, 100.5) == 0
    assert outage.room(5, 0, 103.0) == 1
    assert outage.room(5, 1, 103.0) == 0
    outage.succeeded()
    assert outage.room(5, 0, 103.0) == 5


def test_an_outage_has_an_end_of_its_own() -> None:
    outage = failing(3 * GIVE_UP_AFTER, worked=True)
    assert outage.hopeless(100.0 + OUTAGE_SECONDS) == ""
    assert "no group succeeded for 1801 s" in outage.hopeless(101.0 + OUTAGE_SECONDS)


@given(st.lists(st.booleans(), max_size=60))
def test_it_never_waits_longer_than_seldom(results: list[bool]) -> None:
    outage, now = Outage(), 0.0
    for good in results:
        if good:
            outage.succeeded()
        else:
            outage.happened("down", now)
        assert outage.room(1, 0, now + SELDOM) == 1
        now += 1.0
