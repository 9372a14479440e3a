"""A sandbox that ends during grading is replaced once; only one that its code broke is the fault of the submission."""

from collections.abc import Callable, Iterator
from time import monotonic

import pytest
from turnwise.envs.worlds.code.fresh_sandbox import in_fresh_sandbox
from turnwise.sandbox import NodeLost, SandboxBroken, SandboxLease, SandboxLost, SandboxSpec, set_provider
from turnwise.sandbox.provider import InProcessProvider

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)


@pytest.fixture(autouse=True)
def provider() -> Iterator[None]:
    made = InProcessProvider("local", capacity=2, warm=0)
    set_provider(made)
    yield
    set_provider(None)
    made.close()


def failing(*errors: Exception) -> Callable[[SandboxLease, float], str]:
    """Return a judge that raises each error once."""
    left = list(errors)

    def judge(box: SandboxLease, until: float) -> str:
        if left:
            raise left.pop(0)
        return box.id

    return judge


def graded(judge: Callable[[SandboxLease, float], str]) -> str | None:
    return in_fresh_sandbox(SPEC, "cases", judge, monotonic() + 30)


@pytest.mark.parametrize("error", [NodeLost("gone"), SandboxLost("gone"), SandboxBroken("full")])
def test_one_end_is_retried(error: Exception) -> None:
    assert graded(failing(error))


def test_two_broken_sandboxes_are_the_fault_of_the_submission() -> None:
    assert graded(failing(SandboxBroken("full"), SandboxBroken("full"))) is None


@pytest.mark.parametrize("first", [NodeLost("gone"), SandboxLost("gone"), SandboxBroken("full")])
@pytest.mark.parametrize("second", [NodeLost, SandboxLost, SandboxBroken])
def test_an_end_from_outside_is_not_the_fault_of_the_submission(first: Exception, second: type[Exception]) -> None:
    if isinstance(first, SandboxBroken) and second is SandboxBroken:
        return
    expected = type(first) if second is SandboxBroken else second
    with pytest.raises(expected):
        graded(failing(first, second("again")))
