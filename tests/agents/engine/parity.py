"""Sample from an engine while its weights change, and score each token with the model under the token's own version."""

import asyncio
import copy
from typing import Any

import torch
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.request import Completion, Sampling
from turnwise.agents.weights.base import Link, transport
from turnwise.agents.weights.source import ParameterSource

TOLERANCE = 1e-4
"""Nats."""
LEAST_TOKENS = 1000
UPDATES = 6
TEMPERATURES = (1.0, 0.7)
WORDS = [f"w{i}" for i in range(120)]
Sampled = tuple[list[int], Completion]


async def play(
    model: Any, engine: Any, way: str, sessions: int = 20
) -> tuple[dict[int, Any], dict[float, list[Sampled]]]:
    """Sample while weights change, with so many sessions of each of two temperatures.

    Return the weights of every version, and the samples of each temperature.
    """
    generator = torch.Generator().manual_seed(1)
    incarnation = (await engine.info.remote())["incarnation"]
    sender = transport(way).sender(ParameterSource(model.named_parameters()), Link())
    snapshots: dict[int, Any] = {}

    async def update(version: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3 * parameter.std())
        snapshots[version] = copy.deepcopy(model.state_dict())
        sender.write()
        offer = sender.offer(0, incarnation)
        sending = asyncio.create_task(asyncio.to_thread(sender.send, 0))
        await engine.update_weights.remote(offer, version)
        await sending

    client = PolicyClient([engine], Sampling(stop=()))
    await update(0)
    shared = [7, 8, 9] * 20

    async def session(temperature: float, number: int) -> Sampled:
        prompt = [*shared, 1 + number]
        sampling = Sampling((), temperature)
        return prompt, await client.generate(f"s{number}", prompt, 150, 60, sampling)

    running = {t: [asyncio.ensure_future(session(t, i)) for i in range(sessions)] for t in TEMPERATURES}
    for version in range(1, UPDATES):
        await asyncio.sleep(0.05)
        await update(version)
    sampled = {t: list(await asyncio.gather(*tasks)) for t, tasks in running.items()}
    await update(UPDATES)
    for t in TEMPERATURES:
        sampled[t] += await asyncio.gather(*(session(t, i) for i in range(8)))
    await client.close()
    sender.close()
    return snapshots, sampled


def check(model: Any, snapshots: dict[int, Any], sampled: dict[float, list[Sampled]]) -> None:
    """Assert that the model agrees on every token, of which some are of requests that ran through an update."""
    for temperature, completions in sampled.items():
        worst, count, mixed = compare(model, snapshots, completions, temperature)
        assert count >= LEAST_TOKENS
        assert mixed >= 3, "no request ran through an update"
        assert worst <= TOLERANCE


def compare(
    model: Any, snapshots: dict[int, Any], sampled: list[Sampled], temperature: float
) -> tuple[float, int, int]:
    """Return the largest difference, the number of tokens, and the number of requests with more than one version."""
    worst, count = 0.0, 0
    mixed = sum(len(set(completion.versions)) > 1 for _, completion in sampled)
    for version, weights in snapshots.items():
        model.load_state_dict(weights)
        for prompt, completion in sampled:
            mask = torch.tensor(completion.versions) == version
            if not mask.any():
                continue
            ids = torch.tensor([prompt + completion.tokens])
            with torch.no_grad():
                logits = model(ids).logits[0, len(prompt) - 1 : -1] / temperature
            expected = logits.log_softmax(-1)[torch.arange(len(mask)), torch.tensor(completion.tokens)]
            worst = max(worst, (expected - torch.tensor(completion.logprobs))[mask].abs().max().item())
            count += int(mask.sum())
    return worst, count, mixed
