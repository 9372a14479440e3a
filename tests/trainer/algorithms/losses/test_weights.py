"""The weight of a token changes its own share of the loss and that of no other token, in every loss and aggregation."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from turnwise.records import Sample, Source
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.groups import TrainSample
from turnwise.trainer.algorithms.losses.base import SOURCES, Aggregation, PolicyLoss
from turnwise.trainer.algorithms.losses.behavior_cloning import BehaviorCloning
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.losses.gspo import GSPO
from turnwise.trainer.algorithms.losses.hpt import HPT
from turnwise.trainer.algorithms.losses.vcpo import VCPO
from turnwise.trainer.algorithms.sample_filters.negative_advantage_weight import NegativeAdvantageWeight
from turnwise.trainer.learner.packing import pack_minibatch

SEQUENCE = [0, 0, 1, 1]
PROBABILITIES = [0.5, 0.4, 0.3, 0.2]
ADVANTAGES = [1.0, 1.0, -1.0, -1.0]
REWARDED, TAUGHT = SOURCES.index(Source.POLICY), SOURCES.index(Source.EXPERT)


def sample(name: str, source: int, weight: float, success: float) -> TrainSample:
    """Return the only sample of a group with one token of context and two trained ones."""
    ints, floats = np.zeros(3, np.int32), np.zeros(3, np.float32)
    mask = np.asarray([0, 1, 1], np.uint8)
    sources = np.where(mask, source, -1).astype(np.int8)
    advantages = np.full(3, 1.0 if name == "a" else -1.0, np.float32)
    one = Sample(name, ints, mask, floats, ints, ints, ints, sources)
    return TrainSample(one, name, advantages, np.float32(weight) * mask.astype(np.float32), ints, success)


def gradient(loss: PolicyLoss, weight: float) -> list[float]:
    """Return the gradient at two sequences of two tokens, of which the second has this weight."""
    batch = token_batch(
        PROBABILITIES, PROBABILITIES, PROBABILITIES, ADVANTAGES, weights=[1, 1, weight, weight], sequence=SEQUENCE
    )
    if isinstance(loss, HPT):
        second = TAUGHT if loss.gamma else REWARDED
        sources = [second if loss.sft_coef == 0.5 else REWARDED] * 2 + [second] * 2
        batch = replace(batch, source=torch.tensor(sources))
        loss.prepare([sample("a", sources[0], 1.0, 0.5), sample("b", sources[2], weight, 0.5)])
    loss(batch).loss.backward()
    assert batch.logprobs.grad is not None
    return batch.logprobs.grad.tolist()


MODES: tuple[Aggregation, ...] = ("token_mean", "episode_mean", "constant")
LOSSES = [
    *(
        kind(aggregation=mode, max_tokens=1024)
        for kind in (DecoupledPPO, GSPO, VCPO, BehaviorCloning)
        for mode in MODES
    ),
    HPT(),
    HPT(gamma=1.0, sft_coef=0.5),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_weight_changes_the_share_of_its_token_only(loss: PolicyLoss) -> None:
    whole = gradient(loss, 1.0)
    assert all(whole)
    for weight in (0.1, 1e-3, 3.0):
        assert gradient(loss, weight) == pytest.approx([*whole[:2], *(weight * one for one in whole[2:])])


@pytest.mark.parametrize("weight", [0.1, 1e-6, 1.0])
def test_less_weight_on_failures_is_not_more_on_successes(weight: float) -> None:
    """Tokens are counted, whatever their weights, and equally on every rank."""
    both = [sample(name, REWARDED, 1.0, 0.5) for name in ("a", "b")]
    filtered = NegativeAdvantageWeight(weight=weight)(both, None)  # type: ignore[arg-type]
    assert filtered[1].weights.tolist() == pytest.approx([0, weight, weight])
    for rank in range(2):
        totals = pack_minibatch(filtered, 8, rank=rank, ranks=2).totals
        assert (totals.tokens, totals.episodes, totals.groups) == (4, 2, 2)


def test_survivors_weigh_more_and_members_without_a_weight_as_much_as_before() -> None:
    """The weight 4 of a survivor of an abort with probability 3/4 quadruples its share; that of the other stays."""
    loss = DecoupledPPO()
    assert gradient(loss, 4.0) == pytest.approx([-1 / 4, -1 / 4, 4 / 4, 4 / 4])
