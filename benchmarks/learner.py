"""Measure the memory and the speed of the learner.

``python benchmarks/learner.py --tokens 8192 --vocabulary 150000`` prints one JSON line:

* memory: peak bytes of forward and backward pass with logits in chunks against whole logits, and with activation
  checkpointing against without. They are counted on tensors without storage, so that whole logits need no memory here.
  ``--check-tokens`` measures both ways with real tensors as well, each in a separate process, to check the count.
* state: bytes of weights, gradient and AdamW's moments of a model with the shapes of Qwen3-0.6B, all of whose weights
  are trained, and with a LoRA adapter of rank 16; and the bytes that each update sends to an engine.
* plan: ``turnwise plan`` over the measured peak of a learner, for several sizes with images and without, each in a
  separate process.
* speed: tokens per second of CPU time of a whole update against the bare matrix products of the same shapes, the floor;
  the two alternate, and the least time of each counts.
* packing: tokens per second of CPU time on samples of 64 to 512 tokens, packed against padded to the longest.
* ranks: tokens per second of wall time of the backend ``fsdp`` with one and with two ranks, in Ray actors.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from parts.learner_peak import SIZES
from parts.learner_samples import random_sample, training_samples
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.agents.tiny_model import new_model
from turnwise.trainer.algorithms.losses.base import Need
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.cluster.runtime import start_ray, stop_ray
from turnwise.trainer.config.sections import LearnerConfig, LoraConfig
from turnwise.trainer.learner.backends.fsdp import FsdpLearner
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model import packed_attention, token_scores
from turnwise.trainer.learner.model.activation_checkpointing import checkpoint_activations
from turnwise.trainer.learner.model.adapter import Adapter
from turnwise.trainer.learner.model.token_scores import TokenScorer
from turnwise.trainer.learner.packing import MicroBatch

WAYS = ("chunked", "plain")
DEEP_LAYERS = 16
"""Layers of the model whose activations are counted."""
QWEN3_600M = {
    "vocab_size": 151_936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}
"""The shapes of Qwen3-0.6B."""
WORDS = 4000
"""Vocabulary of the model whose speed is measured."""


def scorer(vocabulary: int, layers: int = 1) -> TokenScorer:
    """Return a small decoder with the output head of a vocabulary."""
    config = AutoConfig.for_model(
        "qwen3",
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        tie_word_embeddings=True,
    )
    return TokenScorer(AutoModelForCausalLM.from_config(config, attn_implementation=packed_attention.NAME).eval(), 1.0)


def one_sequence(tokens: int) -> MicroBatch:
    """Return one sequence; every token but the first is trained."""
    zeros = torch.zeros(tokens - 1, dtype=torch.int64)
    positions = torch.arange(tokens)
    ids = torch.zeros(1, tokens, dtype=torch.int64)
    return MicroBatch(ids, positions[None], [tokens], positions[:-1], *[zeros] * 11)


def backward(model: TokenScorer, batch: MicroBatch) -> None:
    scores = model(batch, Need.ENTROPY_GRADIENT)
    assert scores.entropies is not None
    (scores.logprobs + scores.entropies).sum().backward()


def counted_bytes(tokens: int, vocabulary: int, layers: int = 1, recompute: bool = False) -> int:
    """Return the most bytes that exist at once, without those of the weights."""
    with FakeTensorMode():
        model, batch = scorer(vocabulary, layers), one_sequence(tokens)
        if recompute:
            checkpoint_activations(model.model)
        tracker = MemTracker()
        tracker.track_external(model)
        with tracker:
            backward(model, batch)
    peak: dict[Any, dict[Any, int]] = tracker.get_tracker_snapshot("peak")
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return sum(one["Total"] for one in peak.values()) - weights


def resident_bytes(tokens: int, vocabulary: int) -> int:
    """Return the growth of this process's largest resident size."""
    model, batch = scorer(vocabulary), one_sequence(tokens)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    backward(model, batch)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def set_way(way: str) -> None:
    if way == "plain":
        token_scores.LOGITS_PER_CHUNK = sys.maxsize


def memory(options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {"tokens": options.tokens, "vocabulary": options.vocabulary}
    chunk = token_scores.LOGITS_PER_CHUNK
    for way in WAYS:
        set_way(way)
        result[f"{way}_peak_bytes"] = counted_bytes(options.tokens, options.vocabulary)
        if options.check_tokens:
            result[f"{way}_counted_bytes_check"] = counted_bytes(options.check_tokens, options.vocabulary)
            command = [sys.executable, __file__, "--resident", way, "--check-tokens", str(options.check_tokens)]
            command += ["--vocabulary", str(options.vocabulary)]
            result[f"{way}_resident_bytes_check"] = int(subprocess.check_output(command, text=True).split()[-1])
        token_scores.LOGITS_PER_CHUNK = chunk
    result["chunks_ratio"] = result["plain_peak_bytes"] / result["chunked_peak_bytes"]
    kept, again = (counted_bytes(options.tokens, 1000, DEEP_LAYERS, recompute) for recompute in (False, True))
    return result | {"activations_bytes": kept, "checkpointed_bytes": again, "checkpointing_ratio": kept / again}


def state_bytes(lora: LoraConfig | None) -> tuple[int, int]:
    """Return the bytes of weights, gradient and both moments, and the bytes that are published, without storage."""
    config = AutoConfig.for_model("qwen3", **QWEN3_600M)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=packed_attention.NAME)
        if lora is not None:
            Adapter(model, lora, Path())
    trained = sum(parameter.nbytes for parameter in model.parameters() if parameter.requires_grad)
    return sum(parameter.nbytes for parameter in model.parameters()) + 3 * trained, trained


def state(_: argparse.Namespace) -> dict[str, int | float]:
    (whole, published), (adapted, sent) = state_bytes(None), state_bytes(LoraConfig(rank=16))
    result = {"state_bytes": whole, "lora_state_bytes": adapted, "published_bytes": published, "lora_sent_bytes": sent}
    return result | {"lora_state_ratio": whole / adapted, "lora_sent_ratio": published / sent}


def speed_model(folder: str, options: argparse.Namespace) -> Path:
    """Write the model whose speed is measured."""
    words = [f"w{number}" for number in range(WORDS)]
    return new_model(f"{folder}/model", words, hidden=options.hidden, layers=4, heads=8, tie=False)


def bare_products(model: torch.nn.Module, tokens: int, trained: int) -> None:
    """Compute the matrix products of every linear layer, forward and backward, on random values."""
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            rows = trained if name == "lm_head" else tokens
            inputs, outputs = torch.ones(rows, layer.in_features), torch.ones(rows, layer.out_features)
            torch.mm(inputs, layer.weight.detach().T)
            torch.mm(outputs, layer.weight.detach())
            torch.mm(outputs.T, inputs)


def speed(options: argparse.Namespace) -> dict[str, float]:
    """Return tokens per second of an update and of its bare products, and their ratio."""
    samples = training_samples(8, 256, WORDS)
    tokens = sum(len(sample.sample.tokens) for sample in samples)
    config = LearnerConfig(max_tokens_per_micro_batch=tokens)
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(speed_model(folder, options), config, DecoupledPPO(), Recompute(), 1.0)
    times: dict[str, list[float]] = {"update": [], "bare": []}
    for update in range(options.repeats):
        start = process_time()
        learner.update(samples, 0.0, update, Random(0))  # noqa: S311 - one minibatch draws nothing
        times["update"].append(process_time() - start)
        start = process_time()
        bare_products(learner.model, tokens, tokens // 4)
        times["bare"].append(process_time() - start)
    found = {f"{name}_tokens_per_s": tokens / min(values) for name, values in times.items()}
    return found | {"learner_over_matmul": min(times["bare"]) / min(times["update"])}


def planned_peaks(_: argparse.Namespace) -> dict[str, Any]:
    """Return the plan over the measured peak of each size."""
    program = str(Path(__file__).with_name("parts") / "learner_peak.py")
    found = {}
    for size in SIZES:
        output = subprocess.check_output([sys.executable, program, size], text=True)
        found[size] = json.loads(output.splitlines()[-1])
    return {
        "plan_over_measured": {size: one["plan_over_measured"] for size, one in found.items()},
        "measured_peak_bytes": {size: one["measured_bytes"] for size, one in found.items()},
    }


def packing(options: argparse.Namespace) -> dict[str, float]:
    """Return tokens per second of CPU time, packed and padded; tokens of the padding do not count."""
    lengths = [int(length) for length in np.random.default_rng(1).integers(64, 513, size=16)]
    packed, padded = (
        [random_sample(number, length, WORDS, whole) for number, length in enumerate(lengths)]
        for whole in (0, max(lengths))
    )
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(speed_model(folder, options), LearnerConfig(), DecoupledPPO(), Recompute(), 1.0)
    times: dict[str, list[float]] = {"packed": [], "padded": []}
    for update in range(options.repeats):
        for name, samples in (("packed", packed), ("padded", padded)):
            start = process_time()
            learner.update(samples, 0.0, update, Random(0))  # noqa: S311 - one minibatch draws nothing
            times[name].append(process_time() - start)
    found = {f"{name}_tokens_per_s": sum(lengths) / min(values) for name, values in times.items()}
    return found | {"packed_over_padded": min(times["padded"]) / min(times["packed"])}


def ranks(options: argparse.Namespace) -> dict[str, float]:
    """Return tokens per second of wall time of the backend `fsdp`, by its number of ranks."""
    samples = training_samples(16, 256, WORDS)
    tokens = sum(len(sample.sample.tokens) for sample in samples)
    start_ray()
    found = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = speed_model(folder, options)
            for size in (1, 2):
                config = LearnerConfig(backend="fsdp", num_ranks=size)
                learner = FsdpLearner(model, config, DecoupledPPO(), Recompute(), 1.0)
                times = []
                for update in range(options.repeats):
                    start = perf_counter()
                    learner.update(samples, 0.0, update, Random(0))  # noqa: S311 - one minibatch draws nothing
                    times.append(perf_counter() - start)
                learner.close()
                found[f"fsdp_{size}_tokens_per_s"] = tokens / min(times)
    finally:
        stop_ray()
    return found | {"two_ranks_over_one": found["fsdp_2_tokens_per_s"] / found["fsdp_1_tokens_per_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--check-tokens", type=int, default=0, help="measure real tensors of this many tokens too")
    parser.add_argument("--hidden", type=int, default=512, help="hidden size of the model whose speed is measured")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--only", action="append", metavar="PART", help="memory, state, plan, speed, packing or ranks; repeatable"
    )
    parser.add_argument("--resident", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resident:
        set_way(options.resident)
        print(resident_bytes(options.check_tokens, options.vocabulary))
        return
    parts = {
        "memory": memory,
        "state": state,
        "plan": planned_peaks,
        "speed": speed,
        "packing": packing,
        "ranks": ranks,
    }
    result: dict[str, Any] = {}
    for name, part in parts.items():
        if not options.only or name in options.only:
            result |= part(options)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
