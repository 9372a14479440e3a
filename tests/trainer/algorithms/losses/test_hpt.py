"""HPT: the gate, and both terms with their denominators, worked out by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from turnwise.records import Sample, Source
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.base import SOURCES, TokenBatch
from turnwise.trainer.algorithms.losses.hpt import HPT

SIZES = {"solved": 1, "unsolved": 2, "demo_solved": 1, "demo_unsolved": 3, "demo_unplayed": 1}
"""Trained tokens of each sequence."""
RETURNS = {"solved": 0.5, "unsolved": 0.0, "demo_solved": 0.5, "demo_unsolved": 0.0, "demo_unplayed": math.nan}
NAMES = [name for name, size in SIZES.items() for _ in range(size)]
CURRENT = [0.5, 0.4, 0.4, 0.3, 0.2, 0.5, 0.1, 0.3]
BEHAVIOR = [0.4, 0.4, 0.4, *CURRENT[3:]]
ADVANTAGES = [2.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def source(name: str) -> int:
    return SOURCES.index(Source.EXPERT if name.startswith("demo") else Source.POLICY)


def train_sample(name: str) -> TrainSample:
    """Return a sample with one token of context before its trained tokens."""
    size = SIZES[name] + 1
    mask = np.arange(size) > 0
    ints = np.zeros(size, np.int32)
    sources = np.where(mask, source(name), -1).astype(np.int8)
    sample = Sample(name, ints, mask.astype(np.uint8), np.zeros(size, np.float32), ints, ints, ints, sources)
    return TrainSample(sample, name, np.zeros(size, np.float32), mask.astype(np.float32), ints, RETURNS[name])


SAMPLES = [train_sample(name) for name in SIZES]


def part(tokens: Sequence[int]) -> TokenBatch:
    """Return some tokens of the optimizer step as a micro-batch."""
    order = list(SIZES)
    batch = token_batch(
        *([values[i] for i in tokens] for values in (CURRENT, BEHAVIOR, BEHAVIOR, ADVANTAGES)),
        sequence=[order.index(NAMES[i]) for i in tokens],
    )
    return replace(
        batch,
        source=torch.tensor([source(NAMES[i]) for i in tokens]),
        lengths=torch.tensor(list(SIZES.values())),
    )


def prepared(**options: float) -> HPT:
    loss = HPT(**options)
    loss.prepare(SAMPLES)
    return loss


# RL on the one token of the solved task: the ratio 0.5/0.4 = 1.25 is clipped at 1.2, times the advantage 2.
RL = -1.2 * 2
# SFT on the three tokens of the demonstration of the unsolved task.
SFT = -(math.log(0.2) + math.log(0.5) + math.log(0.1)) / 3


def test_both_terms_by_hand() -> None:
    output = prepared()(part(range(8)))
    assert output.loss.item() == pytest.approx(RL + SFT)
    assert prepared(sft_coef=0.25)(part(range(8))).loss.item() == pytest.approx(RL + SFT / 4)
    assert output.metrics["sft_fraction"].values.tolist() == [False, True, True, True]
    assert output.metrics["nll"].values.mean().item() == pytest.approx(SFT)
    assert output.metrics["clip_fraction"].values.tolist() == [True]


def test_the_gate_is_above_gamma() -> None:
    # Now RL trains on neither task, and SFT on the demonstrations of both.
    both = -(math.log(0.3) + math.log(0.2) + math.log(0.5) + math.log(0.1)) / 4
    assert prepared(gamma=0.5)(part(range(8))).loss.item() == pytest.approx(both)
    # And RL trains on both tasks: -2 * 1.2 for the first, 1 for each token of the second, whose ratio is 1.
    assert prepared(gamma=-1.0)(part(range(8))).loss.item() == pytest.approx((RL + 1 + 1) / 3)


def test_the_loss_does_not_depend_on_the_split_into_micro_batches() -> None:
    loss = prepared()
    assert sum(loss(part(tokens)).loss.item() for tokens in ([0], [1, 2, 3], [4, 5, 6, 7])) == pytest.approx(RL + SFT)


def test_the_gradient_reaches_the_tokens_of_both_terms_only() -> None:
    batch = part(range(8))
    prepared(clip_ratio_high=9.0)(batch).loss.backward()
    assert batch.logprobs.grad is not None
    expected = [-1.25 * 2, 0, 0, 0, -1 / 3, -1 / 3, -1 / 3, 0]
    assert batch.logprobs.grad.tolist() == pytest.approx(expected)
