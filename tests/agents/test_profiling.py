"""Profiles attribute processor time to the stacks that spend it."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from turnwise.agents.profiling import ProfiledActor, StackSampler

BUSY_S = 0.3


def spin() -> None:
    end = time.thread_time() + BUSY_S
    while time.thread_time() < end:
        pass


def doze() -> None:
    time.sleep(BUSY_S)


def spent_us(path: Path) -> dict[str, int]:
    """Return the microseconds by stack."""
    return {stack: int(spent) for stack, _, spent in (line.rpartition(" ") for line in path.read_text().splitlines())}


def work_in_bursts() -> None:
    """Work for two milliseconds between sleeps, as the event loop of a rollout worker does."""
    end = time.thread_time() + BUSY_S
    while time.thread_time() < end:
        burst = time.thread_time() + 0.002
        while time.thread_time() < burst:
            pass
        wait_for_more()


def wait_for_more() -> None:
    time.sleep(0.002)


def in_threads(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work, name=work.__name__) for work in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def test_processor_time_is_found_and_waits_are_not(tmp_path: Path) -> None:
    sampler = StackSampler()
    sampler.start()
    in_threads(spin, doze)
    sampler.stop(tmp_path / "new" / "stacks.folded")
    found = spent_us(tmp_path / "new" / "stacks.folded")
    busy, idle = (sum(us for stack, us in found.items() if stack.startswith(f"{name};")) for name in ("spin", "doze"))
    assert 0.6e6 * BUSY_S < busy < 1.1e6 * BUSY_S
    assert idle < 0.1e6 * BUSY_S
    assert any(f"{__name__}.spin:" in stack.split(";")[-1] for stack in found)


def test_short_bursts_are_found_where_they_work(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    sampler = StackSampler()
    sampler.start()
    in_threads(work_in_bursts)
    sampler.stop(tmp_path / "stacks.folded")
    found = spent_us(tmp_path / "stacks.folded")
    working = sum(us for stack, us in found.items() if f"{__name__}.work_in_bursts:" in stack.split(";")[-1])
    assert working > 0.15e6 * BUSY_S
    assert sys.getswitchinterval() == before


def test_an_actor_profiles_once_per_window(tmp_path: Path) -> None:
    actor = ProfiledActor()
    actor.stop_profile(str(tmp_path), "worker")
    assert list(tmp_path.iterdir()) == [], "nothing was started"
    for _ in range(2):
        actor.start_profile()
        actor.start_profile()
        actor.stop_profile(str(tmp_path), "worker")
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("worker-")
    assert "stack sampler" not in {thread.name for thread in threading.enumerate()}
