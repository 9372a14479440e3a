"""One call of an environment: its result does not depend on how it closes, and what it enumerates is checked."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.errors import EnvironmentBroken
from turnwise.envs.runner import once
from turnwise.envs.runner.once import call_once, checked_seeds, enumerated_seeds
from turnwise.envs.spaces import FreeText


class Hangs(TurnEnv):
    """Closes after ``released`` only."""

    released = threading.Event()

    def __init__(self) -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))

    def tasks(self, split: str) -> range:
        return range(2, 4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        return "on", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "on", 0.0, True, False, {}

    def close(self) -> None:
        self.released.wait(20)


def _made(**options: Any) -> gymnasium.Env[Obs, str]:
    return Hangs()


Hangs.released.set()  # tests of other modules list every registered environment
gymnasium.register("once/Hangs-v0", entry_point=_made)


def test_an_environment_that_does_not_close_changes_no_result(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(once, "CLOSE_TIMEOUT_S", 0.1)
    began = time.monotonic()
    Hangs.released.clear()
    try:
        assert enumerated_seeds("once/Hangs-v0", {}, "test") == (2, 3)
        assert time.monotonic() - began < 10
    finally:
        Hangs.released.set()
    assert "once/Hangs-v0 did not close within 0.1 s" in caplog.text


def test_the_environment_is_closed_when_the_call_returns() -> None:
    Hangs.released.set()
    before = {one.ident for one in threading.enumerate()}
    assert call_once("once/Hangs-v0", {}, "number", lambda env: 7) == 7
    assert {one.ident for one in threading.enumerate()} <= before


def numbers() -> Iterator[int]:
    yield from (3, 1)


@pytest.mark.parametrize(
    ("seeds", "checked"),
    [(None, None), ([3, 1], (3, 1)), (range(2), (0, 1)), (np.arange(2), (0, 1)), (numbers(), (3, 1)), ({7: "a"}, (7,))],
)
def test_seeds_of_every_kind_of_iterable_are_read_once(seeds: Any, checked: tuple[int, ...] | None) -> None:
    assert checked_seeds("a/B-v0", "train", seeds) == checked


@pytest.mark.parametrize(
    ("seeds", "returned"),
    [
        ([], "no seed"),
        (5, "no seed"),
        ([2**70], f"the seed {2**70}"),
        ([0, -3], "the seed -3"),
        ([0, True], "the seed True"),
        (["a"], "the seed 'a'"),
        ([1.0], "the seed 1.0"),
    ],
)
def test_values_that_are_no_seeds_are_refused_by_value(seeds: Any, returned: str) -> None:
    with pytest.raises(EnvironmentBroken) as raised:
        checked_seeds("a/B-v0", "train", seeds)
    assert f"a/B-v0: `tasks('train')` returned {returned}; it must return" in str(raised.value)


def test_an_empty_test_split_names_the_setting() -> None:
    with pytest.raises(EnvironmentBroken, match=r"set `evaluation\.tasks = 0`"):
        checked_seeds("a/B-v0", "test", [])
