"""An engine serves the LoRA adapter of a learner as if it were merged into the model, through updates in flight.

`make soak` runs it; in CI, ``gpu/test_check_engine.py`` compares an adapter's tokens.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.engine.request import Sampling
from turnwise.agents.tiny_model import new_model
from turnwise.agents.weights.base import Link
from turnwise.tests.agents.engine.parity import LEAST_TOKENS, TOLERANCE, UPDATES, WORDS, Sampled, compare
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model.loading import merge_adapter

pytestmark = pytest.mark.soak

LORA = LoraConfig(rank=5, alpha=20)
TEMPERATURE = 0.7


def merged(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Return the weights of an adapter's checkpoint, merged by PEFT."""
    merge_adapter(checkpoint, checkpoint / "merged")
    weights: dict[str, torch.Tensor] = AutoModelForCausalLM.from_pretrained(checkpoint / "merged").state_dict()
    return weights


def test_the_served_adapter_equals_the_merged_model(ray: Any, run: Any, tmp_path: Path) -> None:
    torch.manual_seed(1)
    base = new_model(tmp_path / "model", WORDS, seed=5)
    learner = Learner(base, LearnerConfig(lora=LORA), DecoupledPPO(), Recompute(), TEMPERATURE)
    change(learner, tmp_path / "0")
    engine = start_engine(EngineConfig(kv_cache_memory_bytes=32 << 20), tmp_path / "0")
    try:
        sampled = run(play(learner, engine, tmp_path))
    finally:
        ray.kill(engine)
    snapshots = {version: merged(tmp_path / str(version)) for version in range(UPDATES + 1)}
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    worst, count, mixed = compare(model, snapshots, sampled, TEMPERATURE)
    assert count >= LEAST_TOKENS
    assert mixed >= 3, "no request ran through an update"
    assert worst <= TOLERANCE
    plain, _, _ = compare(model, dict.fromkeys(snapshots, snapshots[0]), sampled, TEMPERATURE)
    assert plain > 100 * TOLERANCE, "the adapters change nothing"


def change(learner: Learner, checkpoint: Path) -> None:
    """Change the adapter of a learner and save it."""
    with torch.no_grad():
        for _, parameter in learner.named_parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.05)
    checkpoint.mkdir()
    learner.save(checkpoint)


async def play(learner: Learner, engine: Any, folder: Path) -> list[Sampled]:
    """Sample while the adapter changes, from the version that the engine loaded on; return the samples."""
    sender = learner.weights("shm", Link())

    async def update(version: int) -> None:
        change(learner, folder / str(version))
        sender.write()
        await engine.update_weights.remote(sender.offer(0, ""), version)

    client = PolicyClient([engine], Sampling((), TEMPERATURE))
    await engine.use_loaded_weights.remote(0)
    shared = [7, 8, 9] * 20

    async def session(number: int) -> Sampled:
        prompt = [*shared, 1 + number]
        return prompt, await client.generate(f"s{number}", prompt, 150, 60)

    running = [asyncio.ensure_future(session(i)) for i in range(20)]
    for version in range(1, UPDATES):
        await asyncio.sleep(0.05)
        await update(version)
    sampled = list(await asyncio.gather(*running))
    await update(UPDATES)
    sampled += await asyncio.gather(*(session(i) for i in range(8)))
    await client.close()
    sender.close()
    return sampled
