"""Compare engine and learner with plain `transformers` on a pretrained model, on one CPU thread.

``python benchmarks/pretrained.py FOLDER`` takes an ordinary Hugging Face folder, such as that of SmolLM2-135M-Instruct
(``tools/smollm2.sh`` makes it). Prints one JSON line last:

* ``engine_over_transformers``: a batch of prompts of equal length, each continued by as many sampled tokens, through
  turnwise's engine core and through ``generate`` of `transformers`; ``adapter_over_transformers``: the same through an
  engine that serves a LoRA adapter.
* ``learner_over_transformers``: forward pass, backward pass and AdamW of `transformers` on the same tokens as one
  update of the learner; ``adapter_learner_over_transformers``: the same with a LoRA adapter on both sides, by PEFT.

The two sides of a ratio alternate in one process, and the least CPU time of each counts.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

LORA_RANK = 16


def least(repeats: int, **sides: Callable[[], None]) -> dict[str, float]:
    """Return the least CPU seconds of each side; the sides alternate."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            start = process_time()
            run()
            times[name].append(process_time() - start)
    return {name: min(values) for name, values in times.items()}


def prompts(options: argparse.Namespace, vocabulary: int, seed: int) -> list[list[int]]:
    """Return random token ids, so that no prompt is in the engine's prefix cache."""
    rng = Random(seed)  # noqa: S311
    return [[rng.randrange(100, vocabulary) for _ in range(options.prompt_tokens)] for _ in range(options.batch)]


@contextmanager
def engine(folder: Path, options: argparse.Namespace) -> Iterator[Callable[[list[list[int]]], None]]:
    """Start an engine in this process; yield a function that completes prompts."""
    from turnwise.agents.engine.config import EngineConfig, engine_arguments
    from turnwise.agents.engine.core import Core
    from turnwise.agents.engine.request import Request, Sampling
    from turnwise.agents.model_folder import base_model, is_adapter

    adapter = folder if is_adapter(folder) else None
    arguments = engine_arguments(EngineConfig(dtype=options.dtype), str(base_model(folder)), 1024)
    core = Core(arguments, lambda: None, adapter)
    numbers, sampling = iter(range(1 << 30)), Sampling(stop=())

    async def complete(batch: list[list[int]]) -> None:
        loop = asyncio.get_running_loop()
        core._loop = loop
        done = [loop.create_future() for _ in batch]
        for prompt, future in zip(batch, done, strict=True):
            core.add(str(next(numbers)), Request(prompt, options.new_tokens, sampling), future.set_result)
        for one in await asyncio.gather(*done):
            assert len(one.tokens) == options.new_tokens

    asyncio.run(core.set_version(0))
    yield lambda batch: asyncio.run(complete(batch))
    core.shutdown()


def sampling(folder: Path, model: Any, options: argparse.Namespace) -> dict[str, float]:
    """Return tokens per second of the engine and of `transformers`, prompts included, and their ratio."""
    import torch

    count, vocabulary = iter(range(1 << 20)), model.config.vocab_size
    low = model.to(getattr(torch, options.dtype))

    def generate() -> None:
        ids = torch.tensor(prompts(options, vocabulary, next(count)))
        settings: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        settings |= {"max_new_tokens": options.new_tokens, "min_new_tokens": options.new_tokens, "pad_token_id": 0}
        with torch.no_grad():
            low.generate(ids, attention_mask=torch.ones_like(ids), **settings)

    with engine(folder, options) as complete:
        complete(prompts(options, vocabulary, next(count)))
        times = least(
            options.repeats,
            engine=lambda: complete(prompts(options, vocabulary, next(count))),
            transformers=generate,
        )
    model.float()
    tokens = options.batch * (options.prompt_tokens + options.new_tokens)
    return {f"{name}_tokens_per_s": tokens / value for name, value in times.items()} | {
        "over_transformers": times["transformers"] / times["engine"]
    }


def training(folder: Path, options: argparse.Namespace, rank: int | None) -> dict[str, float]:
    """Return tokens per second of the learner and of `transformers`, and their ratio."""
    import torch
    from parts.learner_samples import training_samples
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM
    from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
    from turnwise.trainer.algorithms.proximal.recompute import Recompute
    from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
    from turnwise.trainer.learner.backends.local import Learner

    lora = None if rank is None else LoraConfig(rank=rank)
    plain: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    vocabulary, length = plain.config.vocab_size, options.train_tokens // options.sequences
    samples = training_samples(options.sequences, length, vocabulary)
    tokens = options.train_tokens
    config = LearnerConfig(max_tokens_per_micro_batch=tokens, lora=lora, dtype=options.dtype)
    learner = Learner(folder, config, DecoupledPPO(), Recompute(), 1.0)
    if rank is not None:
        plain = get_peft_model(plain, PeftConfig(r=rank, target_modules="all-linear"))
    optimizer = torch.optim.AdamW(
        [parameter for parameter in plain.parameters() if parameter.requires_grad], lr=1e-6, fused=True
    )
    ids = torch.tensor([sample.sample.tokens.tolist() for sample in samples])
    masks = torch.tensor([sample.sample.mask.tolist() for sample in samples])
    labels = torch.where(masks.bool(), ids, -100)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, options.dtype == "bfloat16"):
            plain(input_ids=ids, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()

    times = least(
        options.repeats,
        learner=lambda: learner.update(samples, 0.0, 0, Random(0)) and None,  # noqa: S311
        transformers=step,
    )
    return {f"{name}_tokens_per_s": tokens / value for name, value in times.items()} | {
        "over_transformers": times["transformers"] / times["learner"]
    }


def adapter_folder(folder: Path, into: Path) -> Path:
    """Write a LoRA adapter of the model and return its folder."""
    import torch
    from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
    from turnwise.trainer.algorithms.proximal.recompute import Recompute
    from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
    from turnwise.trainer.learner.backends.local import Learner

    learner = Learner(folder, LearnerConfig(lora=LoraConfig(rank=LORA_RANK)), DecoupledPPO(), Recompute(), 1.0)
    with torch.no_grad():
        for _, value in learner.named_parameters():
            value.add_(torch.randn_like(value) * 0.01)
    into.mkdir()
    learner.save(into)
    return into


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--prompt-tokens", type=int, default=96)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--train-tokens", type=int, default=2048)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--only", action="append", help="engine, adapter, learner or adapter_learner; repeatable")
    options = parser.parse_args()
    from turnwise.agents.engine.actor import CPU_ENVIRONMENT

    os.environ.update({**CPU_ENVIRONMENT, "OMP_NUM_THREADS": "1"})
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    wanted = options.only or ["engine", "adapter", "learner", "adapter_learner"]
    result: dict[str, Any] = {"batch": options.batch, "dtype": options.dtype}
    with tempfile.TemporaryDirectory() as temporary:
        for name in wanted:
            if name in ("engine", "adapter"):
                model: Any = AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32).eval()
                served = (
                    options.folder if name == "engine" else adapter_folder(options.folder, Path(temporary) / "lora")
                )
                found = sampling(served, model, options)
            else:
                found = training(options.folder, options, LORA_RANK if name == "adapter_learner" else None)
            print(name, found, flush=True)
            result |= {f"{name}_{key}": round(value, 3) for key, value in found.items()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
