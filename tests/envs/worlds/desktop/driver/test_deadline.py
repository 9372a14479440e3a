"""A deadline interrupts any wait; busy programs are at fault for a late request, or a machine without a processor."""

from time import monotonic, sleep

import pytest
from turnwise.envs.worlds.desktop.driver.deadline import (
    BUSY_SHARE,
    STARVED_SHARE,
    Deadline,
    at_fault,
    left_s,
    process_times,
)
from turnwise.envs.worlds.desktop.driver.errors import DeadlineExceeded

IDLE = {1: (5.0, 1.0), 2: (7.0, 0.0)}
SECONDS = 4.0


def test_busy_programs_are_at_fault_even_on_a_busy_machine() -> None:
    ran = BUSY_SHARE * SECONDS / 2
    after = {1: (5.0 + ran, 1.0 + SECONDS), 2: (7.0, 0.0), 3: (ran, SECONDS)}
    assert at_fault(IDLE, after, SECONDS) == "page"


def test_the_machine_is_at_fault_if_a_program_waits_for_a_processor() -> None:
    after = {1: (5.1, 1.0), 2: (7.0, STARVED_SHARE * SECONDS)}
    assert at_fault(IDLE, after, SECONDS) == "machine"


def test_programs_that_neither_run_nor_wait_are_at_fault() -> None:
    """They are stopped, or wait for a grabbed X server."""
    assert at_fault(IDLE, IDLE, SECONDS) == "page"


def test_a_deadline_interrupts_a_wait_and_knows_the_time_left() -> None:
    assert left_s() is None
    began, limit, left = monotonic(), Deadline(0.4), list[float | None]()

    def wait() -> None:
        with limit:
            left.append(left_s())
            sleep(10)

    with pytest.raises(DeadlineExceeded):
        wait()
    assert 0.4 <= monotonic() - began < 5
    assert left[0] is not None
    assert 0.2 < left[0] <= 0.4
    assert left_s() is None
    assert limit.at_fault() in ("page", "machine")
    sleep(0.5)  # no signal comes later


def test_the_machine_is_at_fault_if_the_signal_in_the_middle_did_not_arrive() -> None:
    with Deadline(60) as limit:
        pass
    assert limit.at_fault() == "machine"


def test_the_times_of_processes_are_seconds() -> None:
    ran, waited = process_times()[1]
    assert ran >= 0
    assert waited >= 0
