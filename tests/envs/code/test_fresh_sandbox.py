"""A node that is lost during grading is retried like a lost sandbox, and is never the fault of the submission."""

from collections.abc import Callable, Iterator
from time import monotonic

import pytest
from turnwise.envs.code.fresh_sandbox import in_fresh_sandbox
from turnwise.sandbox import NodeLost, SandboxLease, SandboxLost, SandboxSpec, set_provider
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


@pytest.mark.parametrize("error", [NodeLost("gone"), SandboxLost("gone")])
def test_one_loss_is_retried(error: Exception) -> None:
    assert graded(failing(error))


def test_two_lost_sandboxes_are_the_fault_of_the_submission_and_two_lost_nodes_are_not() -> None:
    assert graded(failing(SandboxLost("gone"), SandboxLost("gone"))) is None
    with pytest.raises(NodeLost):
        graded(failing(NodeLost("gone"), NodeLost("gone")))


def test_a_lost_node_and_a_lost_sandbox_are_not_the_fault_of_the_submission() -> None:
    with pytest.raises(SandboxLost):
        graded(failing(NodeLost("gone"), SandboxLost("gone")))
