"""Worlds that break or hang in the format warm-up are left out, and never hold it up."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from time import monotonic

import pytest
from turnwise.envs.base import TurnEnv
from turnwise.tests.envs.faulty import FAULTY, HANG
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.warmup.random_episodes import PATIENCE, NothingToRehearse, rehearse

SITE = EnvironmentConfig(id="turnwise/TextSite-v0")


@pytest.fixture(autouse=True)
def _release() -> Iterator[None]:
    yield
    HANG.set()
    HANG.clear()


def world(fault: str, where: str) -> EnvironmentConfig:
    return EnvironmentConfig(id=FAULTY, options={"fault": fault, "where": where})


def play(env: TurnEnv, seed: int, rng: Random, beat: Callable[[], None]) -> str:
    beat()
    env.reset(seed=seed)
    beat()
    env.step("fault")
    return type(env.unwrapped).__name__


def test_the_same_generator_gives_the_same_episodes() -> None:
    def seeds() -> list[int]:
        return list(islice(rehearse([SITE], lambda env, seed, rng, beat: seed, Random(7), 5.0), 40))

    assert seeds() == seeds()
    assert len(set(seeds())) == 40


@pytest.mark.parametrize(
    ("fault", "where"), [("raise", "step"), ("raise", "reset"), ("exit", "reset"), ("raise", "make")]
)
def test_a_world_that_keeps_raising_is_left_out(fault: str, where: str) -> None:
    told: list[str] = []
    made = list(islice(rehearse([SITE, world(fault, where)], play, Random(0), 5.0, told.append), 60))
    assert made == ["TextSiteEnv"] * 60
    (said,) = told
    assert FAULTY in said
    assert f"{PATIENCE} episodes in a row" in said


def test_a_world_that_hangs_is_left_out_after_its_deadline() -> None:
    told: list[str] = []
    began = monotonic()
    made = list(islice(rehearse([SITE, world("hang", "step")], play, Random(0), 0.5, told.append), 60))
    assert made == ["TextSiteEnv"] * 60
    assert len(told) == 1
    assert "did not return within 0.5 s" in told[0]
    assert monotonic() - began < 20


@pytest.mark.parametrize(("fault", "told"), [("raise", "the page is gone"), ("hang", "did not return")])
def test_with_no_world_left_it_ends_with_the_reason(fault: str, told: str) -> None:
    with pytest.raises(NothingToRehearse, match=told):
        next(rehearse([world(fault, "reset")], play, Random(0), 0.5))


def test_a_consumer_that_is_slower_than_the_deadline_is_no_hang() -> None:
    made = rehearse([SITE], lambda env, seed, rng, beat: seed, Random(0), 0.2)
    pause = monotonic() + 1.0
    first = list(islice(made, 20))
    while monotonic() < pause:
        pass
    assert len({*first, *islice(made, 40)}) == 60
