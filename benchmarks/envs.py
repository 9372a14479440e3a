"""Measure the overhead of an environment thread per step of ``turnwise/TextSite-v0``.

The floor is the bare step, measured in the same run. Prints one JSON line last: ``step_us`` (bare), ``owned_step_us``
(through the environment's thread, checked and hashed), ``hop_us`` (their difference) and ``ratio``.
"""

import asyncio
import json
import time

from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.text.env import TextSiteEnv

ROUNDS, STEPS = 40, 100


def bare() -> float:
    """Best seconds a step, called directly."""
    env = TextSiteEnv()
    best = float("inf")
    for seed in range(ROUNDS):
        env.reset(seed=seed)
        began = time.perf_counter()
        for _ in range(STEPS):
            env.step("back")
        best = min(best, (time.perf_counter() - began) / STEPS)
    return best


async def owned() -> float:
    """Best seconds a step, through the owner."""
    owner = EnvThread("turnwise/TextSite-v0")
    await owner.make(5)
    best = float("inf")
    for seed in range(ROUNDS):
        await owner.reset(seed, "train", 5)
        began = time.perf_counter()
        for _ in range(STEPS):
            await owner.step("back", 5)
        best = min(best, (time.perf_counter() - began) / STEPS)
    await owner.close(5)
    return best


if __name__ == "__main__":
    floor, through = bare() * 1e6, asyncio.run(owned()) * 1e6
    figures = {"step_us": floor, "owned_step_us": through, "hop_us": through - floor, "ratio": through / floor}
    print(json.dumps({"benchmark": "envs", **{name: round(value, 2) for name, value in figures.items()}}))
