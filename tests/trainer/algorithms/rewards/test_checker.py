"""The reward ``checker``: a function of one trajectory instead of the environment's rewards."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError
from turnwise.records import GroupState, Task, Trajectory
from turnwise.sandbox import (
    FileError,
    SandboxBroken,
    SandboxError,
    SandboxLease,
    SandboxLost,
    SandboxSpec,
    StreamError,
    lease,
    set_provider,
)
from turnwise.sandbox.errors import LeaseTimeout, StreamTimeout
from turnwise.sandbox.provider import InProcessProvider
from turnwise.tests.sandbox.backends.processes import processes_of
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.groups import Shaped
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.rollout.scoring import score


def by_turns(task: Task, trajectory: Trajectory) -> Any:
    """Return another kind of answer per number of turns."""
    assert task.env_id == "turnwise/TextSite-v0"
    answers: dict[int, Any] = {1: True, 2: 0.25, 3: [1, 2, 3], 4: None}
    return answers[len(trajectory.steps)]


def shaped(function: str, *turns: int) -> list[Shaped]:
    group = scored_group([[9.0] * count for count in turns]).group
    checker = RewardShaper.build({"name": "checker", "function": function})
    return list(checker(group, [[9.0] * count for count in turns]))


def test_a_number_rewards_the_last_turn_and_a_sequence_every_turn() -> None:
    assert shaped(f"{__name__}:by_turns", 1, 2, 3, 0) == [
        Shaped([1.0]),
        Shaped([0.0, 0.25]),
        Shaped([1.0, 2.0, 3.0]),
        Shaped(None, {"error": f"`{__name__}:by_turns` raised KeyError: 0"}),
    ]


def test_none_and_an_exception_give_no_score() -> None:
    absent, raised = shaped(f"{__name__}:by_turns", 4, 5)
    assert (absent.rewards, raised.rewards) == (None, None)
    assert absent.verdict["error"] == f"`{__name__}:by_turns` returned no score"
    assert raised.verdict["error"] == f"`{__name__}:by_turns` raised KeyError: 5"


@pytest.mark.parametrize(
    ("function", "reason"),
    [("absent_pkg:check", "cannot be imported"), ("math:pi", "is not a function"), ("math", "cannot be imported")],
)
def test_a_function_that_does_not_exist_is_refused(function: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        shaped(function, 1)


def leaves(task: Task, trajectory: Trajectory) -> Any:
    """End the process, as programs do that are called as functions."""
    raise SystemExit(3)


def test_a_function_that_exits_gives_no_score_and_does_not_end_the_run() -> None:
    (answer,) = shaped(f"{__name__}:leaves", 2)
    assert answer == Shaped(None, {"error": f"`{__name__}:leaves` raised SystemExit: 3"})


SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)
FAULTS: list[Callable[[SandboxLease], None]] = []
"""What happens to the sandbox of each call of ``sandboxed``, the next first; then nothing happens."""


def sandboxed(task: Task, trajectory: Trajectory) -> bool:
    """Return whether a command in a real sandbox succeeds."""
    with lease(SPEC, timeout_s=30) as box:
        if FAULTS:
            FAULTS.pop(0)(box)
        return box.exec(["true"], timeout_s=20).exit_code == 0


def ended_from_outside(box: SandboxLease) -> None:
    """Kill the sandbox from outside."""
    (guest,) = processes_of(box.id)
    os.kill(guest, signal.SIGKILL)


def broken_by_the_agent(box: SandboxLease) -> None:
    """Fail as a request of a sandbox does whose memory its commands filled."""
    raise SandboxBroken("it reached its memory limit")


@pytest.fixture
def sandboxes() -> Iterator[None]:
    provider = InProcessProvider("local", capacity=1, warm=0)
    set_provider(provider)
    try:
        yield
    finally:
        FAULTS.clear()
        set_provider(None)
        provider.close()


@pytest.mark.usefixtures("sandboxes")
def test_a_sandbox_that_ends_from_outside_is_replaced_once_and_then_gives_no_score() -> None:
    name = f"{__name__}:sandboxed"
    FAULTS.append(ended_from_outside)
    assert shaped(name, 2) == [Shaped([0.0, 1.0])]
    FAULTS.extend([broken_by_the_agent, ended_from_outside])
    (lost,) = shaped(name, 2)
    assert lost.rewards is None
    assert lost.verdict["error"].startswith(f"`{name}` raised SandboxLost: ")
    FAULTS.extend([ended_from_outside, ended_from_outside])
    group = scored_group([[9.0], [9.0], [9.0]]).group
    scoring = score(group, [RewardShaper.build({"name": "checker", "function": name})], [])
    assert (scoring.state, scoring.scored.rewards, scoring.scored.unscored) == (GroupState.READY, [[1.0], [1.0]], 1)


@pytest.mark.usefixtures("sandboxes")
def test_an_agent_that_breaks_the_sandbox_of_the_function_gets_zero_and_not_no_score() -> None:
    FAULTS.extend([broken_by_the_agent, broken_by_the_agent])
    name = f"{__name__}:sandboxed"
    reason = {"error": f"`{name}` raised SandboxBroken: it reached its memory limit"}
    assert shaped(name, 2) == [Shaped([0.0, 0.0], reason)]
    FAULTS.extend([ended_from_outside, broken_by_the_agent])
    (lost,) = shaped(name, 2)
    assert lost.rewards is None
    assert lost.verdict["error"].startswith(f"`{name}` raised SandboxLost: ")


def raises(task: Task, trajectory: Trajectory) -> Any:
    """Raise the next error."""
    raise ERRORS.pop(0)


ERRORS: list[SandboxError] = []
"""Errors of the calls of ``raises``, the next first."""


@pytest.mark.parametrize("caused", [FileError("no file"), StreamError("closed"), StreamTimeout("no exit")])
@pytest.mark.parametrize("first", [FileError("no file"), SandboxBroken("memory")])
def test_an_error_that_the_agent_causes_gives_zero(caused: SandboxError, first: SandboxError) -> None:
    ERRORS.extend([first, caused])
    error = f"`{__name__}:raises` raised {type(caused).__name__}: {caused}"
    assert shaped(f"{__name__}:raises", 2) == [Shaped([0.0, 0.0], {"error": error})]


@pytest.mark.parametrize(
    ("first", "second", "scored"),
    [
        (FileError("no file"), SandboxLost("killed"), False),
        (SandboxLost("killed"), FileError("no file"), False),
        (FileError("no file"), LeaseTimeout("none is free"), False),
        (SandboxBroken("memory"), LeaseTimeout("none is free"), True),
        (LeaseTimeout("none is free"), SandboxBroken("memory"), False),
    ],
)
def test_a_failure_from_outside_gives_no_score(first: SandboxError, second: SandboxError, scored: bool) -> None:
    ERRORS.extend([first, second])
    (answer,) = shaped(f"{__name__}:raises", 2)
    assert (answer.rewards is not None) is scored
