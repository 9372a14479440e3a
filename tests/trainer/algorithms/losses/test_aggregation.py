"""Aggregations of a loss per token, worked out by hand for two sequences of one and three tokens."""

import pytest
import torch
from turnwise.records import Source
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.base import SOURCES, Aggregation, aggregate
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO

VALUES = [8.0, 1.0, 2.0, 3.0]
WEIGHTS = [1.0, 1.0, 0.5, 1.0]
BATCH = token_batch([0.5] * 4, [0.5] * 4, [0.5] * 4, VALUES, weights=WEIGHTS, sequence=[0, 1, 1, 1])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token_mean", (8 + 1 + 1 + 3) / 4),
        ("episode_mean", (8 / 1 + (1 + 1 + 3) / 3) / 2),
        ("constant", (8 + 1 + 1 + 3) / (10 * 2)),
    ],
)
def test_aggregations_by_hand(mode: Aggregation, expected: float) -> None:
    values = torch.tensor(VALUES, dtype=torch.float64)
    assert aggregate(BATCH, values, mode, 10).item() == pytest.approx(expected)
    # At the proximal policy every ratio is 1, and the loss per token is minus the advantage.
    assert DecoupledPPO(aggregation=mode, max_tokens=10)(BATCH).loss.item() == pytest.approx(-expected)


def test_the_mean_of_a_sequence_is_returned_at_each_of_its_tokens() -> None:
    assert BATCH.sequence_mean(torch.tensor(VALUES, dtype=torch.float64)).tolist() == [8, 2, 2, 2]


def test_tokens_are_found_by_their_source() -> None:
    assert SOURCES[0] is Source.POLICY
    assert BATCH.from_source(Source.POLICY).all()
    assert not BATCH.from_source(Source.EXPERT).any()
