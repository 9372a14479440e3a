"""Measure turns per second through ``PolicyClient`` and the Ray actor, against vLLM's ``AsyncLLM`` in this process.

Concurrent sessions request turns of at most four tokens on a prompt that grows from 60 to 180 tokens, as in an episode.
Both sides play the same turns with the same model, one after the other, each with its best settings. Prints one JSON
line last: ``turns_per_s``, ``floor_turns_per_s``, their ``ratio``, and the CPU time per turn summed over all processes.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

WORDS = 170
Generate = Callable[[int, list[int]], Awaitable[list[int]]]


async def play(generate: Generate, sessions: int, turns: int) -> int:
    """Play every session to its end and return the number of turns."""

    async def session(number: int) -> None:
        rng = random.Random(number)  # noqa: S311
        context = [rng.randrange(1, WORDS) for _ in range(60)]
        for _ in range(turns):
            context += await generate(number, context)
            context += [rng.randrange(1, WORDS) for _ in range(12)]

    await asyncio.gather(*(session(i) for i in range(sessions)))
    return sessions * turns


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants, in seconds."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks[pid] for pid in mine) / os.sysconf("SC_CLK_TCK")


async def measure(generate: Generate, options: argparse.Namespace) -> tuple[float, float]:
    """Return turns per second and CPU microseconds per turn of the best round, after a warm-up round."""
    await play(generate, options.sessions, 2)
    best = (0.0, 0.0)
    for _ in range(options.rounds):
        cpu, start = cpu_seconds(), time.perf_counter()
        turns = await play(generate, options.sessions, options.turns)
        rate = turns / (time.perf_counter() - start)
        best = max(best, (rate, (cpu_seconds() - cpu) / turns * 1e6))
        print(f"  {rate:7.0f} turns/s", flush=True)
    return best


async def through_client(model: Path, options: argparse.Namespace) -> tuple[float, float, float]:
    """Measure client, Ray and engine actor; also return the seconds until the first turn."""
    import ray
    from turnwise.agents.engine.actor import start_engine
    from turnwise.agents.engine.client import PolicyClient
    from turnwise.agents.engine.config import EngineConfig
    from turnwise.agents.engine.request import Sampling

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    start = time.perf_counter()
    engine = start_engine(EngineConfig(), model)
    await engine.use_loaded_weights.remote(0)
    client = PolicyClient([engine], Sampling(stop=(WORDS + 1,)))

    async def generate(session: int, prompt: list[int]) -> list[int]:
        return (await client.generate(f"s{session}", prompt, 4, 60)).tokens

    await generate(0, [1, 2, 3])
    ready = time.perf_counter() - start
    rate, cost = await measure(generate, options)
    await client.close()
    ray.kill(engine)
    ray.shutdown()
    return rate, cost, ready


async def through_async_llm(model: Path, options: argparse.Namespace) -> tuple[float, float]:
    """Measure vLLM's front end in this process with its core in another, set up as in vLLM's documentation."""
    from turnwise.agents.engine.config import EngineConfig, engine_arguments
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = engine_arguments(EngineConfig(), str(model))
    llm: Any = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            skip_tokenizer_init=True,
            logprobs_mode="processed_logprobs",
            disable_log_stats=True,
            **{**arguments, "block_size": 32},
        )
    )
    sampling = SamplingParams(
        max_tokens=4,
        logprobs=0,
        flat_logprobs=True,
        detokenize=False,
        stop_token_ids=[WORDS + 1],
        output_kind=RequestOutputKind.FINAL_ONLY,
    )
    count = 0

    async def generate(session: int, prompt: list[int]) -> list[int]:
        nonlocal count
        count += 1
        request = {"type": "token", "prompt_token_ids": list(prompt)}
        tokens: list[int] = []
        async for output in llm.generate(request, sampling, str(count)):
            tokens = list(output.outputs[0].token_ids)
        return tokens

    result = await measure(generate, options)
    llm.shutdown()
    return result


def main() -> None:
    """Measure both and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=160)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from turnwise.agents.engine.actor import CPU_ENVIRONMENT
    from turnwise.agents.tiny_model import new_model

    os.environ.update({**CPU_ENVIRONMENT, "OMP_NUM_THREADS": "1"})
    with tempfile.TemporaryDirectory() as folder:
        model = new_model(Path(folder) / "model", [f"w{i}" for i in range(WORDS)])
        print("through PolicyClient and Ray", flush=True)
        rate, cost, ready = asyncio.run(through_client(model, options))
        print("AsyncLLM in this process", flush=True)
        floor, floor_cost = asyncio.run(through_async_llm(model, options))
    figures = {
        "turns_per_s": round(rate),
        "floor_turns_per_s": round(floor),
        "ratio": round(rate / floor, 3),
        "cpu_us_per_turn": round(cost),
        "floor_cpu_us_per_turn": round(floor_cost),
        "ready_s": round(ready, 1),
        "sessions": options.sessions,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
