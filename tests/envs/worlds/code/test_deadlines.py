"""An agent that slows its step or its grading down gets an outcome in time, and the world's failures stay failures."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.deadlines import STEP_TIMEOUT_S, USED_SHARE, end_of_step, latest_grading, left
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.submission import TOO_SLOW
from turnwise.sandbox import FileError, SandboxBroken, Tree, set_provider
from turnwise.sandbox.errors import LeaseTimeout
from turnwise.sandbox.lease import SandboxLease
from turnwise.tests.envs.worlds.code.faulty_provider import FaultyProvider
from turnwise.tests.envs.worlds.code.small_task import FIXED, small_task

pytestmark = pytest.mark.docker

SLEEPS = "import time\ntime.sleep(60)\n"
STEP_S = 5.0
CASES = "\n".join(f'[[case]]\ncall = "calc.add({number}, 2)"\nreturns = "{number + 2}"' for number in range(9))
TOML = f"instruction = 'Repair add of calc.py.'\n{CASES}\n"


@pytest.fixture(scope="module")
def provider() -> Iterator[FaultyProvider]:
    made = FaultyProvider("local", capacity=8)
    set_provider(made)
    yield made
    set_provider(None)
    made.close()


@pytest.fixture
def env(provider: FaultyProvider, tmp_path: Path) -> Iterator[CodeEnv]:
    made = CodeEnv(folder=str(small_task(tmp_path / "add", toml=TOML, hidden="")), trusted=True)
    made.reset(seed=0)
    yield made
    provider.fault = lambda lease: None
    made.close()


def last_step(env: CodeEnv, step_s: float = STEP_S) -> tuple[float, bool, dict[str, list[str]]]:
    """Take a last step under the deadline of a runner, and check that the deadline holds."""
    env.deadline = time.monotonic() + step_s
    _, reward, terminated, _, info = env.step("submit")
    assert terminated
    assert time.monotonic() < env.deadline
    env.deadline = math.inf
    return reward, info["success"], info["extras"]


def test_the_parts_of_a_step_end_before_it() -> None:
    now = time.monotonic()
    assert now < end_of_step(now + 10) < now + 10
    assert end_of_step(math.inf) == pytest.approx(now + USED_SHARE * STEP_TIMEOUT_S, abs=0.1)
    assert end_of_step(now - 5) <= time.monotonic()
    assert left(now - 5) > 0
    assert left(now + 50, 3) == 3
    assert now + 5 < latest_grading(now + 10) < now + 9


def test_slow_code_is_an_outcome_that_a_fact_records(env: CodeEnv) -> None:
    env.step(f"write calc.py\n{SLEEPS}")
    assert last_step(env) == (0.0, False, {"timed_out": ["grading"]})


def test_code_that_is_slow_in_each_case_is_an_outcome(env: CodeEnv) -> None:
    env.step(f"write calc.py\nimport time\ntime.sleep(1)\n{FIXED}")
    assert last_step(env) == (0.0, False, {"timed_out": ["grading"]})


def test_a_slow_collection_is_an_outcome(env: CodeEnv) -> None:
    """The walk of the guest agent is slowed down here by a fault, as two moving trees of links did."""
    env.step(f"write calc.py\n{FIXED}")
    box = env._box
    assert box is not None

    def read(path: str, *, timeout_s: float, user: int = 0) -> Tree:
        time.sleep(timeout_s)
        raise FileError("not finished before the timeout")

    box.read_tree = read  # type: ignore[method-assign]
    reward, success, extras = last_step(env)
    assert (reward, success) == (0.0, False)
    assert extras["tamper"][-1] == TOO_SLOW


def test_a_grading_that_breaks_its_sandbox_is_an_outcome(env: CodeEnv, provider: FaultyProvider) -> None:
    def broken(lease: SandboxLease) -> None:
        def execute(*args: object, **options: object) -> None:
            raise SandboxBroken("it ended")

        lease.exec = execute  # type: ignore[method-assign, assignment]

    provider.fault = broken
    reward, success, extras = last_step(env)
    assert (reward, success) == (0.0, False)
    assert extras == {"tamper": ["broke the sandbox it was judged in"], "timed_out": ["grading"]}


def test_no_sandbox_for_a_grading_is_a_failure_of_the_world(env: CodeEnv, provider: FaultyProvider) -> None:
    def full(lease: SandboxLease) -> None:
        raise LeaseTimeout("no sandbox")

    provider.fault = full
    with pytest.raises(LeaseTimeout):
        env.step("submit")
    assert env.step("submit")[2], "the episode is over"


def test_a_second_sandbox_that_does_not_come_is_an_outcome(env: CodeEnv, provider: FaultyProvider) -> None:
    gradings = list[str]()

    def lost_then_full(lease: SandboxLease) -> None:
        gradings.append(lease.id)
        if len(gradings) > 1:
            raise LeaseTimeout("no sandbox")

        def execute(*args: object, **options: object) -> None:
            raise SandboxBroken("it ended")

        lease.exec = execute  # type: ignore[method-assign, assignment]

    provider.fault = lost_then_full
    assert last_step(env)[2]["tamper"] == ["broke the sandbox it was judged in"]


FILL = """
import os, time
while True:
    try:
        if os.fork() == 0:
            while os.getppid():
                try:
                    if os.fork() == 0:
                        time.sleep(60)
                        os._exit(0)
                except OSError:
                    continue
    except OSError:
        os._exit(0)
"""


@pytest.mark.soak
def test_hidden_tests_and_processes_that_fill_the_limit(docker: str, tmp_path: Path) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    env.reset(seed=0)
    env.step(f"write calc.py\n{SLEEPS}")
    assert last_step(env, step_s=5) == (0.0, False, {"timed_out": ["grading"]})
    env.reset(seed=0)
    env.step(f"bash\npython3 -c '{FILL}' > /dev/null 2>&1 & sleep 0.5")
    reward, success, extras = last_step(env, step_s=5)
    assert (reward, success) == (0.0, False)
    assert extras["tamper"] == ["left processes running that could not be ended"]
    env.close()
