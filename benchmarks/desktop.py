"""Measure the cost of a desktop: a step over its floor, several desktops at once, and the memory of each.

The floor is a key by XTEST, a capture by XShm and its PNG, in a bare process in the same sandbox, in turns with the
steps. Times are medians in milliseconds. Prints one JSON line last. Requires a Docker engine and the image `desktop`.
"""

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter, sleep

from turnwise.envs.worlds.computer.env import ObservationMode
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.desktop.task import DesktopTask
from turnwise.sandbox import SandboxLease, set_provider
from turnwise.sandbox.provider import InProcessProvider

ROUNDS = 4
PAUSE_S = 0.04
"""Time between steps, and between turns of the floor: a policy thinks, and an application draws 60 times per second."""
FLOOR = """
import sys
sys.path[:0] = ["/opt/turnwise"]
from time import perf_counter, sleep
from driver.png import PngEncoder
from driver.screen import Screen
screen = Screen(":1")
for _ in range(int(sys.argv[1])):
    sleep(float(sys.argv[2]))
    start = perf_counter()
    screen.type(screen.keyboard.for_text("a"))
    screen.sync()
    PngEncoder(screen.width, screen.height).encode(screen.capture.take())
    print(1e3 * (perf_counter() - start))
"""
MEMORY = "cat /sys/fs/cgroup/memory/memory.usage_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.current"


class Entry(DesktopEnv):
    """A dialog with a text field, an application that defers no work to a timer."""

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the one task."""
        return DesktopTask("none", ("zenity --entry --text=Name",))


def sandbox_of(env: Entry) -> SandboxLease:
    """Return the sandbox of an environment that was reset."""
    assert env.desktop.sandbox is not None
    return env.desktop.sandbox


def floor(env: Entry, times: int) -> list[float]:
    """Return the durations of the bare process, in milliseconds. Raises RuntimeError if it fails."""
    result = sandbox_of(env).exec(["python3", "-I", "-c", FLOOR, str(times), str(PAUSE_S)], timeout_s=120)
    if result.exit_code:
        raise RuntimeError(f"the floor cannot be measured: {result.stderr.decode(errors='replace')}")
    return [float(line) for line in result.stdout.split()]


def steps(env: Entry, times: int) -> list[float]:
    """Return the durations of typing a letter with the observation, in milliseconds."""
    taken = []
    for _ in range(times):
        sleep(PAUSE_S)
        start = perf_counter()
        env.step('type("a")')
        taken.append(1e3 * (perf_counter() - start))
    return taken


def one_desktop(observation: ObservationMode, times: int) -> dict[str, float]:
    """Return the medians of floor, step and reset of one kind of observation."""
    env = Entry(observation)
    resets, bare, taken = [], list[float](), list[float]()
    try:
        env.reset(seed=0)
        for _ in range(ROUNDS):
            start = perf_counter()
            env.reset(seed=0)
            resets.append(1e3 * (perf_counter() - start))
            bare += floor(env, times // ROUNDS)
            taken += steps(env, times // ROUNDS)
    finally:
        env.close()
    ratio = median(taken) / median(bare)
    return {"floor_ms": median(bare), "step_ms": median(taken), "ratio": ratio, "reset_ms": median(resets)}


def many_desktops(count: int, times: int) -> dict[str, float]:
    """Return steps per second of several desktops at once, and the memory of each in MiB."""
    envs = [Entry("screenshot") for _ in range(count)]
    try:
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(lambda env: env.reset(seed=0), envs))
            start = perf_counter()
            list(threads.map(lambda env: steps(env, times), envs))
            rate = count * times / (perf_counter() - start)
        used = [int(sandbox_of(env).exec(["sh", "-c", MEMORY], timeout_s=10).stdout) for env in envs]
    finally:
        for env in envs:
            env.close()
    return {"desktops": count, "steps_per_s": rate, "memory_mib": median(used) / 2**20}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=80, help="steps per measurement")
    parser.add_argument("--desktops", type=int, default=8, help="desktops at once")
    chosen = parser.parse_args(argv)
    provider = InProcessProvider("docker", capacity=chosen.desktops, warm=0)
    set_provider(provider)
    try:
        found: dict[str, object] = {}
        for observation in ("screenshot", "text", "both"):
            found[observation] = one_desktop(observation, chosen.times)
            print(f"{observation}: {found[observation]}")
        found["at_once"] = many_desktops(chosen.desktops, chosen.times // 4)
    finally:
        set_provider(None)
        provider.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
