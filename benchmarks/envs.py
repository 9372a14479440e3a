"""Measure the overhead of an environment thread per step of ``turnwise/TextSite-v0``.

The floor is the direct step, measured in the same run. Prints one JSON line last: ``step_us`` (direct),
``thread_step_us`` (through the environment's thread, checked and hashed), ``overhead_us`` (their difference) and
``ratio``.
"""

import asyncio
import json
import time

from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.worlds.tiny.text import TextSiteEnv

ROUNDS, STEPS = 40, 100


def direct() -> float:
    """Return the shortest mean duration of a direct step over the rounds, in seconds."""
    env = TextSiteEnv()
    best = float("inf")
    for seed in range(ROUNDS):
        env.reset(seed=seed)
        start = time.perf_counter()
        for _ in range(STEPS):
            env.step("back")
        best = min(best, (time.perf_counter() - start) / STEPS)
    return best


async def through_thread() -> float:
    """Return the shortest mean duration of a step through an ``EnvThread`` over the rounds, in seconds."""
    env = EnvThread("turnwise/TextSite-v0")
    await env.make(5)
    best = float("inf")
    for seed in range(ROUNDS):
        await env.reset(seed, "train", 5)
        start = time.perf_counter()
        for _ in range(STEPS):
            await env.step("back", 5)
        best = min(best, (time.perf_counter() - start) / STEPS)
    await env.close(5)
    return best


if __name__ == "__main__":
    floor, through = direct() * 1e6, asyncio.run(through_thread()) * 1e6
    figures = {"step_us": floor, "thread_step_us": through, "overhead_us": through - floor, "ratio": through / floor}
    print(json.dumps({"benchmark": "envs", **{name: round(value, 2) for name, value in figures.items()}}))
