"""The breaker lets everything through until some failures in a row, and then probes only."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.sandbox.pool.circuit_breaker import CircuitBreaker


def test_it_opens_after_failures_in_a_row_and_closes_at_a_success() -> None:
    breaker = CircuitBreaker(threshold=3, probe_interval_s=1e6)
    for _ in range(2):
        breaker.failed("no")
    breaker.succeeded()
    for number in range(3):
        assert breaker.allows()
        assert not breaker.is_open
        breaker.failed(f"no {number}")
    assert breaker.is_open
    assert breaker.reason == "no 2"
    assert not breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert not breaker.is_open
    assert breaker.reason == ""


def test_open_it_lets_one_probe_through_at_a_time() -> None:
    breaker = CircuitBreaker(threshold=1, probe_interval_s=5.0)
    breaker._last_attempt = 0.0
    breaker.failures = 1
    assert [breaker.allows(now) for now in (4.9, 5.0, 5.1, 9.9, 10.0, 10.0)] == [False, True, False, False, True, False]


@given(st.lists(st.sampled_from(["fail", "work"]), max_size=40), st.integers(1, 6))
def test_it_is_open_just_when_the_last_tries_all_failed(tries: list[str], threshold: int) -> None:
    breaker = CircuitBreaker(threshold)
    for one in tries:
        breaker.succeeded() if one == "work" else breaker.failed("no")
    assert breaker.is_open == (len(tries) >= threshold and set(tries[-threshold:]) == {"fail"})
