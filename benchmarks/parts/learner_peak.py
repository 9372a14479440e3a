"""Measure the peak memory of a learner on the CPU, and compare it with its plan.

``python benchmarks/parts/learner_peak.py small`` trains a new model for two updates in this process and prints one
JSON line. A measurement needs a process of its own, because a peak never falls.
"""

import argparse
import hashlib
import io
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from turnwise.agents.tiny_vision_model import new_vision_tokenizer, vision_model_config
from turnwise.agents.weights.base import Link
from turnwise.records import Sample, SampleImage
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.planning.learner_memory import LearnerMemory, Workload
from turnwise.trainer.planning.model_shape import ModelShape
from turnwise.trainer.planning.processes import RANK_BYTES, rank_parts

UPDATES = 2
"""The second one has the moments of the optimizer from its start."""
MICRO_BATCHES = 2
SEQUENCES = 4
"""Per micro-batch."""
LIBRARY_BYTES = 108 << 20
"""Pages of libraries that the plan counts. Up to 192 MiB are mapped if the page cache holds the whole libraries."""


@dataclass(frozen=True, slots=True)
class Size:
    """A model and the tokens of its micro-batches."""

    hidden: int
    layers: int
    vocabulary: int
    tokens: int
    images: int = 0
    """Per sequence, all different, of a Qwen3-VL; each has 64 tokens."""


SIZES = {
    "small": Size(256, 4, 4000, 1024),
    "medium": Size(512, 8, 16_000, 1024),
    "large": Size(1024, 8, 32_000, 512),
    "images": Size(256, 4, 4000, 1024, images=3),
    "more images": Size(256, 4, 4000, 4096, images=12),
    "large, images": Size(512, 8, 16_000, 1024, images=3),
}
"""4, 33 and 126 million parameters; with images 5 and 34 million."""
SIDE_PX, IMAGE_TOKENS = 224, 64


def model_config(size: Size, folder: str) -> Any:
    """Return the configuration of a Qwen3 with grouped queries, or of a Qwen3-VL; write its processor to a folder."""
    if size.images:
        words = [f"w{number}" for number in range(size.vocabulary)]
        new_vision_tokenizer(Path(folder), words, 4096)
        return vision_model_config(words, hidden=size.hidden, layers=size.layers, heads=8)
    return AutoConfig.for_model(
        "qwen3",
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=3 * size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=size.hidden // 8,
        tie_word_embeddings=True,
    )


def write_model(size: Size, folder: str) -> ModelShape:
    """Write a model in another process, whose memory does not count; return its shape."""
    config = model_config(size, folder)
    child = os.fork()
    if not child:
        kind = AutoModelForImageTextToText if size.images else AutoModelForCausalLM
        kind.from_config(config, dtype=torch.float32).save_pretrained(folder)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return ModelShape.of(config)


def pictures(size: Size, number: int) -> list[SampleImage]:
    """Return the images of a sequence, one after another, from its second token."""
    made = []
    for place in range(size.images):
        buffer = io.BytesIO()
        pixels = np.random.default_rng([number, place]).integers(0, 255, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(buffer, "PNG")
        content = buffer.getvalue()
        offset = 1 + place * (IMAGE_TOKENS + 1)
        made.append(SampleImage(hashlib.sha256(content).hexdigest(), offset, IMAGE_TOKENS, content))
    return made


def samples(size: Size) -> list[TrainSample]:
    """Return samples of random tokens whose every token is trained but the first and those of images."""
    rng, length = np.random.default_rng(0), size.tokens // SEQUENCES
    made = []
    for number in range(MICRO_BATCHES * SEQUENCES):
        tokens = rng.integers(size.vocabulary, size=length, dtype=np.int32)
        mask, zeros = np.ones(length, np.uint8), np.zeros(length, np.int32)
        logprobs, images = np.full(length, -1.0, np.float32), pictures(size, number)
        for one in images:
            mask[one.offset : one.offset + one.length] = 0
        sample = Sample(f"t{number}", tokens, mask, logprobs, zeros, zeros, zeros, zeros.astype(np.int8), images)
        advantages = np.full(length, (-1.0) ** number, np.float32)
        made.append(TrainSample(sample, f"g{number // SEQUENCES}", advantages, mask.astype(np.float32), zeros))
    return made


def peak_bytes() -> int:
    """Return the largest resident size of this process since ``reset_peak``, with ``LIBRARY_BYTES`` for its files."""
    status = Path("/proc/self/status").read_text()
    peak, files = (int(status.partition(f"{name}:")[2].split()[0]) * 1024 for name in ("VmHWM", "RssFile"))
    return peak - files + LIBRARY_BYTES


def reset_peak() -> None:
    """Forget the resident sizes before now."""
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("--activation-checkpointing", action="store_true")
    options = parser.parse_args()
    size = SIZES[options.size]
    learner = {
        "max_tokens_per_micro_batch": size.tokens,
        "activation_checkpointing": options.activation_checkpointing,
    }
    config = parse_config({"name": "peak", "environments": [{"id": "any"}], "learner": learner})
    with tempfile.TemporaryDirectory() as folder:
        shape = write_model(size, folder)
        reset_peak()
        backend = Learner(folder, config.learner, config.loss, config.proximal, 1.0)
        weights = backend.weights("shm", Link())
        for update in range(UPDATES):
            backend.update(samples(size), 0.0, update, Random(0))  # noqa: S311 - one minibatch draws nothing
            weights.write()
    measured = peak_bytes()
    shown = SEQUENCES * size.images * IMAGE_TOKENS
    work = Workload(size.tokens, size.tokens - shown, True, shown, MICRO_BATCHES * shown)
    memory = LearnerMemory(shape, config, work)
    planned = RANK_BYTES + sum(rank_parts(memory).values()) + 4 * shape.parameters
    result = {"parameters": shape.parameters, "planned_bytes": planned, "measured_bytes": measured}
    print(json.dumps(result | {"plan_over_measured": round(planned / measured, 3)}))


if __name__ == "__main__":
    main()
