"""Measure the share of an engine's speed that is left in a run where the engine is the bottleneck.

A run's engine, rollout worker and store play episodes of a text site, whose step takes microseconds, with a model that
is large enough to keep the engine busy. Then the requests of these episodes are sent straight to the same engine: as
many episodes at once, each request as soon as the one before it is answered, without environments, worker and store.
The prefix cache is emptied in between. The tokens differ, since they are sampled again; their number is counted.

Prints one JSON line last: ``rollout_over_engine``, the sampled tokens per second of the run divided by those of the
engine alone; both rates, the engine's busy share in the run, and the requests.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.request import Sampling
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.agents.weights.base import Link
from turnwise.agents.weights.shm import ShmSender
from turnwise.agents.weights.source import ParameterSource
from turnwise.envs.tasks import make_task
from turnwise.records import Group, GroupState, Horizon, Purpose, Role
from turnwise.store.database import Database, open_database
from turnwise.store.run_store import RunStore
from turnwise.trainer.algorithms.horizons.constant import ConstantHorizon
from turnwise.trainer.cluster.actors import Cluster
from turnwise.trainer.cluster.runtime import start_ray, stop_ray
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import EnvironmentConfig, RolloutConfig
from turnwise.trainer.rollout.group_player import play_group
from turnwise.trainer.warmup.vocabulary import closed_vocabulary

RUN = "rollout"
ENVIRONMENT = "turnwise/TextSite-v0"
HORIZON = Horizon(max_turns=8, max_tokens_per_turn=8, max_tokens_per_episode=64, max_context=512)
GROUP_SIZE = 8
TIMEOUT_S = 600.0
Request = tuple[list[int], int]
"""The prompt's token ids, and the tokens that the run sampled for it."""


def run_config(seed: int) -> RunConfig:
    """Return the configuration of the run."""
    timeouts = {f"{name}_timeout_s": TIMEOUT_S for name in ("reset", "step", "turn", "group")}
    return RunConfig(
        name=RUN,
        seed=seed,
        environments=[EnvironmentConfig(id=ENVIRONMENT)],
        rollout=RolloutConfig(group_size=GROUP_SIZE, **timeouts),
        horizon=ConstantHorizon(
            max_turns=HORIZON.max_turns,
            max_tokens_per_turn=HORIZON.max_tokens_per_turn,
            max_tokens_per_episode=HORIZON.max_tokens_per_episode,
            max_context=HORIZON.max_context,
        ),
    )


async def play(cluster: Cluster, store: RunStore, groups: int, first: int) -> None:
    """Play groups to their end, all at once."""

    async def one(number: int) -> None:
        task = make_task(ENVIRONMENT, number, "train", {})
        group = Group(f"{RUN}:{number}", RUN, task, HORIZON, GROUP_SIZE, Purpose.EVAL)
        await store.open_group(group)
        await play_group(cluster.workers, store, group, TIMEOUT_S)
        await store.close_group(group.id, GroupState.FILTERED, "benchmark")

    await asyncio.gather(*(one(number) for number in range(first, first + groups)))


async def requests_of(store: RunStore, groups: Sequence[str]) -> list[list[Request]]:
    """Return the requests of each stored episode, in order."""
    found = []
    for group in await store.load(groups):
        for trajectory in group.trajectories:
            context: list[int] = []
            requests: list[Request] = []
            for message in trajectory.messages:
                if message.role is Role.ASSISTANT:
                    sampled = int(sum(message.mask))
                    requests.append((list(context), sampled))
                context += [int(token) for token in message.tokens]
            found.append(requests)
    return found


async def send(engine: Any, sampling: Sampling, episodes: Sequence[Sequence[Request]]) -> None:
    """Send the requests of all episodes to the engine, each as soon as the one before it is answered."""
    client = PolicyClient([engine], sampling)

    async def one(number: int, requests: Sequence[Request]) -> None:
        for prompt, sampled in requests:
            await client.generate(str(number), prompt, sampled, TIMEOUT_S)
        client.release(str(number))

    await asyncio.gather(*(one(number, requests) for number, requests in enumerate(episodes)))
    await client.close()


async def rate(cluster: Cluster, work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return the sampled tokens per second while ``work`` runs, and the share of that time that the engine computed."""
    before, began = await cluster.engines.usage(), time.perf_counter()
    await work()
    after, seconds = await cluster.engines.usage(), time.perf_counter() - began
    used = {name: after[name] - before[name] for name in after}
    return used["sampled_tokens"] / seconds, used["busy_s"] / seconds


async def measure(database: Database, model: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the run and the engine alone, in turn, and return the figures of the best round of each."""
    cluster = Cluster.start(run_config(options.seed), database, model)
    network = AutoModelForCausalLM.from_pretrained(model)
    weights = ShmSender(ParameterSource(network.named_parameters()), Link())
    store = RunStore(RUN, database, cluster.store.client)
    sampling = Sampling(tuple(load_renderer(model).stop_tokens))
    best: dict[str, tuple[float, float]] = {"run": (0.0, 0.0), "engine": (0.0, 0.0)}
    count = 0
    try:
        await cluster.ready()
        await store.create(config={}, config_hash="", kind="eval", code_version="")
        await cluster.engines.publish(weights, await store.add_version(0, None))
        await play(cluster, store, 1, 10**6)
        for number in range(options.rounds):
            first = number * options.groups
            played = await rate(cluster, partial(play, cluster, store, options.groups, first))
            episodes = await requests_of(store, [f"{RUN}:{first + i}" for i in range(options.groups)])
            assert cluster.engines.version is not None
            await cluster.engines.publish(weights, cluster.engines.version)  # empties the prefix cache
            alone = await rate(cluster, partial(send, cluster.engines.actors[0], sampling, episodes))
            await cluster.engines.publish(weights, cluster.engines.version)
            best = {"run": max(best["run"], played), "engine": max(best["engine"], alone)}
            count += sum(len(episode) for episode in episodes)
            print(f"  run {played[0]:.0f}, engine alone {alone[0]:.0f} tokens/s", flush=True)
    finally:
        await cluster.close()
        weights.close()
    return {
        "rollout_over_engine": round(best["run"][0] / best["engine"][0], 3),
        "run_tokens_per_s": round(best["run"][0], 1),
        "engine_tokens_per_s": round(best["engine"][0], 1),
        "busy_in_run": round(best["run"][1], 3),
        "requests": count,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--groups", type=int, default=8, help="groups of eight episodes at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        vocabulary = closed_vocabulary(run_config(options.seed).environments)
        model = new_model(
            Path(name) / "model",
            vocabulary,
            hidden=options.hidden,
            layers=options.layers,
            heads=options.hidden // 64,
            max_context=HORIZON.max_context,
        )
        database = open_database(f"sqlite:///{name}/turnwise.db", create=True)
        start_ray()
        try:
            figures = asyncio.run(measure(database, model, options))
        finally:
            stop_ray()
        database.close()
    print(json.dumps({"benchmark": "rollout", **figures, "hidden": options.hidden, "layers": options.layers}))


if __name__ == "__main__":
    main()
