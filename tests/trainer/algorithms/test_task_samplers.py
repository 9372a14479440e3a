"""Which environments are drawn, and how the frontier moves."""

from collections import Counter
from random import Random

from turnwise.envs.tasks import make_task
from turnwise.records import Horizon, Outcome, Status
from turnwise.trainer.algorithms.curriculum.learnability import Frontier
from turnwise.trainer.algorithms.curriculum.mixture import Mixture
from turnwise.trainer.algorithms.protocols import GroupOutcome
from turnwise.trainer.config.schema import EnvironmentConfig

SITE = "turnwise/TextSite-v0"
BOTH = [
    EnvironmentConfig(id=SITE, options={"family": "find"}, weight=3),
    EnvironmentConfig(id=SITE, options={"family": "open"}),
]


def shares(sampler, draws: int = 2000) -> dict[str, float]:
    rng = Random(0)
    drawn = Counter(sampler.propose(BOTH, rng).options["family"] for _ in range(draws))
    return {name: count / draws for name, count in drawn.items()}


def closed(family: str, *rewards: float) -> GroupOutcome:
    ended = [Outcome(str(i), i, 0, Status.COMPLETED, reward, None, 1, 1) for i, reward in enumerate(rewards)]
    return GroupOutcome("g", make_task(SITE, 0, "train", {"family": family}), Horizon(1, 1, 1, 2), ended)


def test_the_mixture_follows_the_weights() -> None:
    assert abs(shares(Mixture())["find"] - 0.75) < 0.05


def test_the_frontier_leaves_what_no_longer_tells_members_apart() -> None:
    sampler = Frontier(rate=0.2, floor=0.1)
    assert abs(shares(sampler)["find"] - 0.75) < 0.05
    for _ in range(40):
        sampler.update(closed("find", 1.0, 1.0))
        sampler.update(closed("open", 1.0, 0.0))
    assert abs(shares(sampler)["find"] - 0.3 / 1.3) < 0.05
    for _ in range(40):
        sampler.update(closed("find", 1.0, -0.3))
    assert abs(shares(sampler)["find"] - 0.75) < 0.05


def test_the_frontier_resumes_where_it_was() -> None:
    sampler, again = Frontier(), Frontier()
    for _ in range(30):
        sampler.update(closed("find", 0.0, 0.0))
    again.load_state_dict(sampler.state_dict())
    assert shares(again) == shares(sampler)


def test_tasks_are_of_the_training_split() -> None:
    assert {Mixture().propose(BOTH, Random(i)).split for i in range(20)} == {"train"}
