"""Measure how long a weight update stops sampling, against one copy of the same bytes.

``python benchmarks/weight_sync.py`` serves random models of about 31 and 105 million parameters in float32, updates
their weights while requests run, and copies the same bytes from one tensor to another in the same thread count, in
turns. ``collective`` is its stand-in on CPUs: gloo over loopback, from a thread of the same process.

Prints one JSON line last. Per size and transport, medians over the rounds:

* ``stall_s``: from the pause of the scheduler until it resumes; no engine step runs meanwhile;
* ``gap_s``: the longest time between the ends of two engine steps, which includes computing the key-value cache of the
  running requests again;
* ``publish_s``: from the begin of the learner's ``write`` until the engine has the version;
* ``stall_over_copy``: the median over the rounds of ``stall_s`` over the time of that round's copy.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

SIZES = {"30M": (512, 12), "100M": (1024, 10)}
"""Hidden size and layers of a model, whose vocabulary has 123 words."""
TRANSPORTS = ("shm", "collective")
REQUESTS = 8
MAX_TOKENS = 900
STEPS_TIMEOUT_S = 120.0


class TimedCore:
    """An engine core in this process; it notes the times of updates and steps."""

    def __init__(self, model: Path) -> None:
        from turnwise.agents.engine.config import EngineConfig, engine_arguments
        from turnwise.agents.engine.core import Core

        self.core = Core(engine_arguments(EngineConfig(), str(model)), lambda: os._exit(1))
        self.stalls: list[float] = []
        self.steps: list[float] = []
        update, step = self.core._update, self.core._step

        def timed_update(*arguments: Any) -> None:
            start = perf_counter()
            update(*arguments)
            self.stalls.append(perf_counter() - start)

        def timed_step() -> None:
            step()
            self.steps.append(perf_counter())

        self.core._update, self.core._step = timed_update, timed_step  # type: ignore[method-assign]

    def sample(self, number: int) -> None:
        """Start the requests of a round."""
        from turnwise.agents.engine.request import Request, Sampling

        request = Request(list(range(1, 65)), MAX_TOKENS, Sampling(stop=()))
        for index in range(REQUESTS):
            self.core.add(f"{number}-{index}", request, lambda _: None)

    async def take_steps(self, count: int) -> None:
        """Wait for a number of steps of the requests."""
        goal = len(self.steps) + count
        async with asyncio.timeout(STEPS_TIMEOUT_S):
            while len(self.steps) < goal:  # noqa: ASYNC110 - steps run in another thread
                await asyncio.sleep(0.002)

    def stop(self, number: int) -> None:
        """End the requests of a round."""
        self.core.abort([f"{number}-{index}" for index in range(REQUESTS)])


async def measure(engine: TimedCore, network: Any, name: str, rounds: int) -> dict[str, float]:
    """Update the weights ``rounds`` times by one transport, and return the medians."""
    import torch
    from turnwise.agents.weights.base import Link, transport
    from turnwise.agents.weights.source import ParameterSource

    source = ParameterSource(network.named_parameters())
    sender = transport(name).sender(source, Link())
    floats = sum(one.nbytes for one in source.metadata()) // 4
    copy_from, copy_to = torch.zeros(floats), torch.ones(floats)
    stalls, gaps, publishes, copies = [], [], [], []
    await engine.core.set_version(0)
    for number in range(rounds + 1):
        engine.sample(number)
        await engine.take_steps(10)
        engine.steps.clear()
        await engine.take_steps(3)
        start = perf_counter()
        sender.write()
        offer = sender.offer(0, "" if sender.keeps_weights else "first")
        sending = asyncio.create_task(asyncio.to_thread(sender.send, 0))
        await engine.core.update(offer, number)
        publishes.append(perf_counter() - start)
        await sending
        stalls.append(engine.stalls[-1])
        await engine.take_steps(3)
        gaps.append(max(later - earlier for earlier, later in zip(engine.steps, engine.steps[1:], strict=False)))
        engine.stop(number)
        await asyncio.sleep(0.05)
        start = perf_counter()
        copy_to.copy_(copy_from)
        copies.append(perf_counter() - start)
    sender.close()
    ratios = [stall / copy for stall, copy in zip(stalls[1:], copies[1:], strict=True)]  # the first maps memory
    return {
        "stall_over_copy": round(statistics.median(ratios), 2),
        "stall_s": round(statistics.median(stalls[1:]), 4),
        "gap_s": round(statistics.median(gaps[1:]), 4),
        "publish_s": round(statistics.median(publishes[1:]), 4),
        "copy_s": round(statistics.median(copies[1:]), 4),
    }


async def main() -> None:
    """Measure every size and transport and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    args = options.parse_args()
    from turnwise.agents.engine.actor import CPU_ENVIRONMENT

    os.environ.update(CPU_ENVIRONMENT, OMP_NUM_THREADS="1")
    import torch
    from transformers import AutoModelForCausalLM
    from turnwise.agents.tiny_model import new_model

    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for size in args.sizes:
        hidden, layers = SIZES[size]
        with tempfile.TemporaryDirectory() as folder:
            words = [f"w{index}" for index in range(120)]
            model = new_model(Path(folder) / "model", words, hidden=hidden, layers=layers, heads=8)
            network = AutoModelForCausalLM.from_pretrained(model)
            engine = TimedCore(model)
        parameters = network.num_parameters()
        found: dict[str, Any] = {name: await measure(engine, network, name, args.rounds) for name in TRANSPORTS}
        engine.core.shutdown()
        results[size] = {"parameters": parameters, "bytes": 4 * parameters, **found}
        results[size]["copy_bytes_per_s"] = round(4 * parameters / found["shm"]["copy_s"])
        print(f"{size}: {json.dumps(results[size])}", flush=True)
    print(json.dumps({"benchmark": "weight_sync", "stall_over_copy": worst(results), **results}))


def worst(results: dict[str, Any]) -> float:
    """Return the largest ratio of ``shm``."""
    ratios: list[float] = [result["shm"]["stall_over_copy"] for result in results.values()]
    return max(ratios)


if __name__ == "__main__":
    asyncio.run(main())
