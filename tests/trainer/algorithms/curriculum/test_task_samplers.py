"""Task samplers draw environments by weight and by learnability."""

import json
from collections import Counter
from random import Random

import pytest
from turnwise.envs.tasks import make_task
from turnwise.errors import TurnwiseError
from turnwise.records import ScoredGroup
from turnwise.tests.trainer.scored_groups import SITE, scored_group
from turnwise.trainer.algorithms.task_samplers.base import WeightedEnvironment
from turnwise.trainer.algorithms.task_samplers.learnability import Learnability
from turnwise.trainer.algorithms.task_samplers.mixture import Mixture
from turnwise.trainer.algorithms.task_samplers.mopps import MoPPS

BOTH = [
    WeightedEnvironment(SITE, options={"family": "find"}, weight=3),
    WeightedEnvironment(SITE, options={"family": "open"}),
]


def shares(sampler, draws: int = 2000) -> dict[str, float]:
    rng = Random(0)
    drawn = Counter(sampler.propose(BOTH, rng).options["family"] for _ in range(draws))
    return {name: count / draws for name, count in drawn.items()}


def closed(family: str, *rewards: float) -> ScoredGroup:
    return scored_group([[reward] for reward in rewards], task=make_task(SITE, 0, "train", {"family": family}))


def test_the_mixture_follows_the_weights() -> None:
    assert abs(shares(Mixture())["find"] - 0.75) < 0.05


def test_learnability_lowers_the_share_of_environments_with_equal_returns() -> None:
    sampler = Learnability(ema_rate=0.2, min_weight=0.1)
    assert abs(shares(sampler)["find"] - 0.75) < 0.05
    for _ in range(40):
        sampler.observe(closed("find", 1.0, 1.0))
        sampler.observe(closed("open", 1.0, 0.0))
    assert abs(shares(sampler)["find"] - 0.3 / 1.3) < 0.05
    for _ in range(40):
        sampler.observe(closed("find", 1.0, -0.3))
    assert abs(shares(sampler)["find"] - 0.75) < 0.05


def test_learnability_resumes_from_its_state() -> None:
    sampler, again = Learnability(), Learnability()
    for _ in range(30):
        sampler.observe(closed("find", 0.0, 0.0))
    again.load_state_dict(sampler.state_dict())
    assert shares(again) == shares(sampler)


def test_tasks_are_of_the_training_split() -> None:
    assert {Mixture().propose(BOTH, Random(i)).split for i in range(20)} == {"train"}


POOL = [WeightedEnvironment(SITE, options={"pool_size": 12}, seeds=tuple(range(12)))]


def of_seed(seed: int, *returns: float) -> ScoredGroup:
    return scored_group([[one] for one in returns], task=make_task(SITE, seed, "train", POOL[0].options))


def test_an_enumerated_environment_draws_from_its_tasks_only() -> None:
    assert {Mixture().propose(POOL, Random(i)).seed for i in range(200)} == set(range(12))


def test_the_posterior_of_mopps_follows_its_formula() -> None:
    """Golden vector: from the prior (1, 1), 2 successes of 8 give (3, 7); then 8 of 8 give (.5 * 3 + .5 + 8, 4)."""
    sampler = MoPPS()
    task = of_seed(3).group.task.id
    sampler.observe(of_seed(3, *[1.0] * 2, *[0.0] * 6))
    assert sampler.posterior(task) == (3, 7)
    sampler.observe(of_seed(3, *[1.0] * 8))
    assert sampler.posterior(task) == (10, 4)
    sampler.observe(of_seed(3))
    assert sampler.posterior(task) == (10, 4)
    assert sampler.metrics() == {"tasks": 1, "success_rate": 10 / 14}


def test_mopps_prefers_tasks_of_medium_difficulty() -> None:
    sampler = MoPPS(candidates=8)
    for _ in range(3):
        for seed in range(12):
            rate = 4 if seed < 3 else 0 if seed < 8 else 8
            sampler.observe(of_seed(seed, *[1.0] * rate, *[0.0] * (8 - rate)))
    rng = Random(0)
    drawn = Counter(sampler.propose(POOL, rng).seed for _ in range(300))
    assert sum(drawn[seed] for seed in range(3)) > 240
    again = MoPPS(candidates=8)
    again.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    assert [again.propose(POOL, Random(i)) for i in range(20)] == [sampler.propose(POOL, Random(i)) for i in range(20)]


def test_mopps_needs_tasks_that_return() -> None:
    with pytest.raises(TurnwiseError, match="`mopps` needs tasks that return"):
        MoPPS().propose(BOTH, Random(0))
