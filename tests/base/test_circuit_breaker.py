"""The breaker allows every attempt until several consecutive failures, and then only probes."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.base.circuit_breaker import CircuitBreaker


def test_it_opens_after_consecutive_failures_and_closes_at_a_success() -> None:
    breaker = CircuitBreaker(threshold=3, probe_interval_s=1e6)
    for _ in range(2):
        breaker.record_failure("no")
    breaker.record_success()
    for number in range(3):
        assert breaker.allows()
        assert not breaker.is_open
        breaker.record_failure(f"no {number}")
    assert breaker.is_open
    assert breaker.last_error == "no 2"
    assert not breaker.allows()
    breaker.record_success()
    assert breaker.allows()
    assert not breaker.is_open
    assert breaker.last_error == ""


def test_an_open_breaker_allows_one_probe_per_interval() -> None:
    breaker = CircuitBreaker(threshold=1, probe_interval_s=5.0)
    breaker.record_failure("no", 0.0)
    assert [breaker.allows(now) for now in (4.9, 5.0, 5.1, 9.9, 10.0, 10.0)] == [False, True, False, False, True, False]


def test_the_probe_interval_doubles_up_to_its_maximum() -> None:
    breaker = CircuitBreaker(threshold=2, probe_interval_s=1.0, probe_interval_max_s=3.0)
    breaker.record_failure("no", 0.0)
    for interval in (1.0, 2.0, 3.0, 3.0):
        breaker.record_failure("no", 10.0)
        assert [breaker.allows(10.0 + interval - 0.1), breaker.allows(10.0 + interval)] == [False, True]
    assert breaker.failing_since == 0.0


def test_attempts_in_progress_that_fail_do_not_delay_the_probes_further() -> None:
    breaker = CircuitBreaker(threshold=2, probe_interval_s=1.0, probe_interval_max_s=64.0)
    for _ in range(9):
        breaker.record_failure("no", 10.0)
    assert [breaker.allows(now) for now in (10.9, 11.0, 11.9)] == [False, True, False]
    breaker.record_failure("no", 12.0)
    assert [breaker.allows(now) for now in (13.9, 14.0)] == [False, True]
    breaker.record_success()
    breaker.record_failure("no", 20.0)
    breaker.record_failure("no", 20.0)
    assert breaker.allows(21.0)


@given(st.lists(st.sampled_from(["failure", "success"]), max_size=40), st.integers(1, 6))
def test_it_is_open_just_when_the_last_attempts_all_failed(attempts: list[str], threshold: int) -> None:
    breaker = CircuitBreaker(threshold)
    for one in attempts:
        breaker.record_success() if one == "success" else breaker.record_failure("no")
    assert breaker.is_open == (len(attempts) >= threshold and set(attempts[-threshold:]) == {"failure"})
