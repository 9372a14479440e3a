"""Environments that break or hang during the format warm-up are excluded, and never stop it."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from time import monotonic

import pytest
from turnwise.envs.base import TurnEnv
from turnwise.tests.envs.faulty import FAULTY, HANG
from turnwise.trainer.config.sections import EnvironmentConfig
from turnwise.trainer.learner.sft import SftExample
from turnwise.trainer.warmup.random_episodes import (
    MAX_CONSECUTIVE_FAILURES,
    Episode,
    NoPlayableEnvironment,
    PlayEpisode,
    random_episodes,
)
from turnwise.trainer.warmup.sft import resampled

SITE = EnvironmentConfig(id="turnwise/TextSite-v0")


@pytest.fixture(autouse=True)
def _release() -> Iterator[None]:
    yield
    HANG.set()
    HANG.clear()


def faulty(fault: str, where: str) -> EnvironmentConfig:
    return EnvironmentConfig(id=FAULTY, options={"fault": fault, "where": where})


def episode_of(number: int) -> Episode:
    return [SftExample([number], [None])]


def seed_only(env: TurnEnv, seed: int, rng: Random, heartbeat: Callable[[], None]) -> Episode:
    return episode_of(seed)


def playing(classes: list[str]) -> PlayEpisode:
    """Return a function that makes two environment calls per episode and appends the environment's class name."""

    def play(env: TurnEnv, seed: int, rng: Random, heartbeat: Callable[[], None]) -> Episode:
        heartbeat()
        env.reset(seed=seed)
        heartbeat()
        env.step("fault")
        classes.append(type(env.unwrapped).__name__)
        return episode_of(seed)

    return play


def test_the_same_random_generator_yields_the_same_episodes() -> None:
    def seeds() -> list[int]:
        return [one.ids[0] for (one,) in islice(random_episodes([SITE], seed_only, Random(7), 5.0), 40)]

    assert seeds() == seeds()
    assert len(set(seeds())) == 40


def test_an_environment_that_lists_its_tasks_plays_these_only() -> None:
    pool = EnvironmentConfig(id="turnwise/TextSite-v0", options={"pool_size": 3})
    assert {one.ids[0] for (one,) in islice(random_episodes([pool], seed_only, Random(7), 5.0), 40)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("fault", "where"), [("raise", "step"), ("raise", "reset"), ("exit", "reset"), ("raise", "make")]
)
def test_an_environment_that_keeps_raising_is_excluded(fault: str, where: str) -> None:
    reported: list[str] = []
    classes: list[str] = []
    stream = random_episodes([SITE, faulty(fault, where)], playing(classes), Random(0), 5.0, reported.append)
    assert len(list(islice(stream, 60))) == 60
    assert set(classes) == {"TextSiteEnv"}
    first, line = reported
    assert FAULTY in line
    assert re.match(f"an episode of the warm-up in .*{FAULTY}.* failed: .", first)
    assert f"{MAX_CONSECUTIVE_FAILURES} episodes in a row" in line


def test_an_environment_that_hangs_is_excluded_after_its_timeout() -> None:
    reported: list[str] = []
    classes: list[str] = []
    start = monotonic()
    stream = random_episodes([SITE, faulty("hang", "step")], playing(classes), Random(0), 0.5, reported.append)
    assert len(list(islice(stream, 60))) == 60
    assert set(classes) == {"TextSiteEnv"}
    (line,) = reported
    assert "did not return within 0.5 s" in line
    assert monotonic() - start < 20


@pytest.mark.parametrize(("fault", "reason"), [("raise", "the page is gone"), ("hang", "did not return within 0.5 s")])
def test_without_a_playable_environment_the_last_reason_is_raised(fault: str, reason: str) -> None:
    with pytest.raises(NoPlayableEnvironment, match=reason):
        next(random_episodes([faulty(fault, "reset")], playing([]), Random(0), 0.5))


@pytest.mark.slow
def test_a_consumer_that_is_slower_than_the_timeout_is_not_a_hang() -> None:
    stream = random_episodes([SITE], seed_only, Random(0), 0.2)
    pause_end = monotonic() + 1.0
    first = list(islice(stream, 20))
    while monotonic() < pause_end:
        pass
    assert len({one.ids[0] for (one,) in [*first, *islice(stream, 40)]}) == 60


def test_a_stop_ends_the_stream_while_an_environment_hangs() -> None:
    began = monotonic()
    hanging = [faulty("hang", "step")]
    assert not list(random_episodes(hanging, playing([]), Random(0), 60.0, stopped=lambda: monotonic() - began > 0.1))
    assert not list(
        resampled(random_episodes(hanging, playing([]), Random(0), 60.0, stopped=lambda: True), 4, Random(0))
    )
    assert monotonic() - began < 10
