"""Task samplers draw environments by weight and by learnability."""

from collections import Counter
from random import Random

from turnwise.envs.tasks import make_task
from turnwise.records import ScoredGroup
from turnwise.tests.trainer.scored_groups import SITE, scored_group
from turnwise.trainer.algorithms.curriculum.task_samplers.base import WeightedEnvironment
from turnwise.trainer.algorithms.curriculum.task_samplers.learnability import Learnability
from turnwise.trainer.algorithms.curriculum.task_samplers.mixture import Mixture

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
