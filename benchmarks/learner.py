"""Measure the memory of the learner's forward and backward pass: logits in chunks against whole logits.

``python benchmarks/learner.py --tokens 8192 --vocabulary 150000`` computes the log-probabilities and entropies of all
tokens with a small decoder, and their gradient. Peak bytes are counted on tensors without storage, so that whole logits
need no memory here. ``--check-tokens`` measures both ways with real tensors as well, each in a process of its own, to
check the count. Prints one JSON line.
"""

import argparse
import json
import resource
import subprocess
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.trainer.algorithms.losses.base import Need
from turnwise.trainer.learner.model import packed_attention, token_scores
from turnwise.trainer.learner.model.token_scores import TokenScorer
from turnwise.trainer.learner.packing import MicroBatch

WAYS = ("chunked", "plain")


def scorer(vocabulary: int) -> TokenScorer:
    """Return a decoder of one small layer with the output head of a large vocabulary."""
    config = AutoConfig.for_model(
        "qwen3",
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=1,
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


def counted_bytes(tokens: int, vocabulary: int) -> int:
    """Return the most bytes that exist at once, without those of the weights."""
    with FakeTensorMode():
        model, batch = scorer(vocabulary), one_sequence(tokens)
        tracker = MemTracker()
        tracker.track_external(model)
        with tracker:
            backward(model, batch)
    peak: dict[Any, dict[Any, int]] = tracker.get_tracker_snapshot("peak")
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--check-tokens", type=int, default=0, help="measure real tensors of this many tokens too")
    parser.add_argument("--resident", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resident:
        set_way(options.resident)
        print(resident_bytes(options.check_tokens, options.vocabulary))
        return
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
    result["ratio"] = result["plain_peak_bytes"] / result["chunked_peak_bytes"]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
