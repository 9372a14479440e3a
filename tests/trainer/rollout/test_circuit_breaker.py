"""A broken environment ends the run; an outage is probed with one group at a time."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.rollout.circuit_breaker import (
    FAILURES_TO_GIVE_UP,
    FAILURES_TO_OPEN,
    OUTAGE_MAX_S,
    PROBE_INTERVAL_MAX_S,
    RolloutCircuitBreaker,
)


def failing(times: int, *, has_succeeded: bool) -> RolloutCircuitBreaker:
    breaker = RolloutCircuitBreaker(has_succeeded=has_succeeded)
    for _ in range(times):
        breaker.record_failure("the engine is down", 100.0)
    return breaker


def test_a_run_without_any_success_gives_up() -> None:
    breaker = failing(FAILURES_TO_GIVE_UP - 1, has_succeeded=False)
    assert breaker.give_up_reason(100.0) == ""
    assert breaker.allowed(5, 3, 100.0) == 5
    breaker = failing(FAILURES_TO_GIVE_UP, has_succeeded=False)
    assert breaker.give_up_reason(100.0) == "24 consecutive groups failed; last error: the engine is down"


def test_an_outage_allows_one_probe_at_a_time_until_one_succeeds() -> None:
    breaker = failing(FAILURES_TO_OPEN - 1, has_succeeded=True)
    assert breaker.allowed(5, 0, 100.0) == 5
    breaker.record_failure("still down", 100.0)
    assert breaker.is_open
    assert breaker.allowed(5, 0, 100.5) == 0
    assert breaker.allowed(5, 1, 103.0) == 0
    assert breaker.allowed(0, 0, 103.0) == 0
    assert breaker.allowed(5, 0, 103.0) == 1
    breaker.record_success()
    assert breaker.allowed(5, 0, 103.0) == 5


def test_an_outage_ends_the_run_at_its_limit() -> None:
    breaker = failing(3 * FAILURES_TO_GIVE_UP, has_succeeded=True)
    assert breaker.give_up_reason(100.0 + OUTAGE_MAX_S) == ""
    assert "no group succeeded for 1801 s" in breaker.give_up_reason(101.0 + OUTAGE_MAX_S)


@given(st.lists(st.booleans(), max_size=60))
def test_no_probe_waits_longer_than_the_maximum_interval(results: list[bool]) -> None:
    breaker, now = RolloutCircuitBreaker(), 0.0
    for success in results:
        if success:
            breaker.record_success()
        else:
            breaker.record_failure("down", now)
        assert breaker.allowed(1, 0, now + PROBE_INTERVAL_MAX_S) == 1
        now += 1.0
