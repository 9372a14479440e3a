"""Counters of processes that restart, or do not answer."""

import asyncio
from collections.abc import Callable
from typing import Any

from turnwise.trainer.telemetry.counter_sums import CounterSums, Read


def answers(*given: float | Exception, delay_s: float = 0.0) -> Read:
    """Return a process that gives one of these counts, or errors, at each call."""
    left = list(given)

    async def read() -> dict[str, float]:
        await asyncio.sleep(delay_s)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"busy_s": answer, "ignored": 1}

    return read


def totals(processes: Callable[[int], dict[Any, Read]], calls: int, timeout_s: float = 5.0) -> list[float]:
    async def scenario() -> list[float]:
        sums = CounterSums(["busy_s"])
        return [(await sums.read(processes(call), timeout_s))["busy_s"] for call in range(calls)]

    return asyncio.run(scenario())


def test_increments_since_the_first_answer_are_summed() -> None:
    both = {"a": answers(100, 103, 104), "b": answers(50, 50, 51)}
    assert totals(lambda _: both, 3) == [0, 3, 5]


def test_a_process_that_does_not_answer_adds_its_increment_later() -> None:
    both = {"a": answers(100, 101, 102, 103), "b": answers(50, ConnectionError(), ConnectionError(), 53)}
    assert totals(lambda _: both, 4) == [0, 1, 2, 6]


def test_a_process_that_first_answers_late_adds_nothing_of_before() -> None:
    late = {"a": answers(ConnectionError(), 1000, 1001)}
    assert totals(lambda _: late, 3) == [0, 0, 1]


def test_a_restarted_process_adds_and_never_subtracts() -> None:
    restarted = {"a": answers(100, 110, 2, 5)}
    assert totals(lambda _: restarted, 4) == [0, 10, 12, 15]


def test_a_process_that_is_replaced_keeps_its_share() -> None:
    old, new = answers(10, 14), answers(3, 4)
    assert totals(lambda call: {"old": old} if call < 2 else {"new": new}, 4) == [0, 4, 4, 5]


def test_a_process_that_is_slow_is_not_awaited() -> None:
    both = {"slow": answers(1, 2, delay_s=60), "a": answers(1, 3)}
    assert totals(lambda _: both, 2, timeout_s=0.05) == [0, 2]
