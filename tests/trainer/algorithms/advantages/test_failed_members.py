"""Members that the infrastructure failed are absent: advantages, loss and weights are those of the same data without.

A failed member keeps the turns and rewards that it had.
"""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from turnwise.agents.tiny_model import new_model
from turnwise.records import SCORED_STATUSES, UNSCORED, Group, GroupState, Status
from turnwise.tests.trainer.learner.test_grpo import LEARNER, WORDS, assembled, trajectory
from turnwise.tests.trainer.learner.test_grpo import batch as whole_groups
from turnwise.tests.trainer.scored_groups import scored
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.batch_stats import batch_metrics
from turnwise.trainer.rollout.scoring import score

SIZE, GROUPS = 6, 5
FAILURES = [Status.ENV_ERROR, Status.TIMEOUT, Status.POLICY_ERROR, Status.CANCELLED]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", WORDS, hidden=32, heads=2, seed=3)


@pytest.fixture(scope="module")
def groups(model: Path) -> list[Group]:
    """Groups that were played to their end."""
    rng, policy = Random(5), AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    template = whole_groups(0, policy)[0]
    played = []
    for name in map(str, range(GROUPS)):
        members = [trajectory(name, member, rng, policy) for member in range(SIZE)]
        played.append(replace(template, id=name, size=SIZE, trajectories=members))
    return played


def failing(groups: list[Group], share: float) -> list[Group]:
    """Return the groups after failures of this share of the members."""
    rng = Random(round(100 * share))
    return [
        replace(
            one,
            trajectories=[
                replace(member, status=rng.choice(FAILURES)) if rng.random() < share else member
                for member in one.trajectories
            ],
        )
        for one in groups
    ]


def absent(group: Group) -> Group:
    """Return the group without its failed members."""
    return replace(group, trajectories=[one for one in group.trajectories if one.status in SCORED_STATUSES])


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.75])
@pytest.mark.parametrize(
    "advantage", [{"name": "grpo"}, {"name": "grpo", "normalize_std": True}, {"name": "turn_return"}], ids=str
)
def test_failed_members_change_neither_statistics_nor_loss(
    model: Path, groups: list[Group], share: float, advantage: dict[str, Any]
) -> None:
    failed = failing(groups, share)
    kept = [one for one in failed if score(one, (), ()).state is GroupState.READY]
    assert {one.id for one in failed} - {one.id for one in kept} == {
        one.id for one in failed if len(absent(one).trajectories) < 2
    }
    assert sum(len(absent(one).trajectories) for one in kept) < SIZE * len(kept), "no member failed"
    results = []
    for data in (kept, [absent(one) for one in kept]):
        slots, batch = assembled(data, advantage=advantage)
        learner = Learner(model, LEARNER, slots.loss, slots.proximal, 1.0)
        metrics = learner.update(batch.samples, 0.0, 0, Random(0))
        results.append((batch, metrics, dict(learner.named_parameters())))
    (ours, our_metrics, our_weights), (theirs, their_metrics, their_weights) = results
    assert [one.sample.trajectory for one in ours.samples] == [one.sample.trajectory for one in theirs.samples]
    for a, b in zip(ours.samples, theirs.samples, strict=True):
        assert a.advantages == pytest.approx(b.advantages, abs=1e-6)
    assert our_metrics == pytest.approx(their_metrics, abs=1e-6)
    assert our_metrics["loss"] != 0
    assert all(torch.allclose(value, their_weights[name], atol=1e-6, rtol=0) for name, value in our_weights.items())


def test_the_share_of_missing_members_is_a_metric(groups: list[Group]) -> None:
    half = failing(groups, 0.5)
    _, batch = assembled(half)
    there = sum(len(absent(one).trajectories) for one in half)
    recorded = batch_metrics([scored(one).group for one in half], batch)
    assert recorded["missing_fraction"] == pytest.approx(1 - there / (SIZE * GROUPS))
    assert batch_metrics(groups, batch)["missing_fraction"] == 0


def test_the_share_of_episodes_without_a_score_of_a_judge_is_a_metric(groups: list[Group]) -> None:
    first, *others = groups
    marked = [replace(one, extras={UNSCORED: ["polite"]}) for one in first.trajectories]
    _, batch = assembled(groups)
    assert batch_metrics(groups, batch)["unscored_fraction"] == 0
    unscored = [replace(first, trajectories=marked), *others]
    assert batch_metrics(unscored, batch)["unscored_fraction"] == pytest.approx(1 / GROUPS)
