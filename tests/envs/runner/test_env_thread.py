"""Every call of an environment thread returns within its timeout, with the right error and its cause."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.envs.errors import (
    MAX_ERROR_CHARS,
    EnvError,
    EnvironmentBroken,
    EnvironmentFailed,
    EnvTimeout,
    UnknownEnvironment,
    wrap_error,
)
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.envs.runner.step_result import StepResult
from turnwise.sandbox.errors import NoEngine
from turnwise.tests.envs.faulty import FAULTY, HANG, MADE, FaultyEnv


@pytest.fixture(autouse=True)
def nothing_hangs_after() -> Iterator[None]:
    HANG.clear()
    yield
    HANG.set()
    ends = time.monotonic() + 5
    while abandoned_threads() and time.monotonic() < ends:
        HANG.wait(0.01)
    assert abandoned_threads() == 0


async def fault(fault: str, where: str = "step", timeout_s: float = 5.0) -> EnvThread:
    owner = EnvThread(FAULTY, {"fault": fault, "where": where})
    await owner.make(timeout_s)
    await owner.reset(0, "train", timeout_s)
    await owner.step("fault", timeout_s)
    return owner


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nan", "reward is nan"),
        ("inf", "reward is inf"),
        ("huge", "reward is inf"),
        ("reward", "reward is str"),
        ("flag", "terminated is NoneType, not bool"),
        ("info", "info is NoneType, not dict"),
        ("arity", "step returned a tuple of 4"),
        ("none", "step returned NoneType"),
        ("observation", "observation is int"),
        ("keys", r"with keys \['text'\]"),
        ("image", r"uint8 \(2, 2\)"),
        ("large", "observation has 50000000 bytes; the limit is"),
        ("valid", r"info\['action_valid'\] is str"),
        ("parts", r"info\['reward_parts'\]\['goal'\] is nan"),
        ("success", r"info\['success'\] is int"),
        ("key", r"info\['state_key'\] is int"),
        ("extras", r"info\['extras'\] is not JSON"),
        ("reserved", r"info\['extras'\] has the key 'image_sizes', which turnwise writes: name it otherwise"),
        ("place", r"info\['targets'\] must be at most 32 lists \[x, y\] or \[x, y, width, height\]"),
        ("places", r"info\['targets'\] must be at most 32 lists"),
        ("long key", r"info\['state_key'\] is 20000 characters; the limit is 16384"),
        ("long part", r"the names in info\['reward_parts'\] are 20004 characters of JSON; the limit is 16384"),
        ("many parts", r"the names in info\['reward_parts'\] are \d+ characters of JSON; the limit is 16384"),
        ("many", r"info\['extras'\] is 200\d\d characters of JSON; the limit is 16384"),
    ],
)
def test_an_invalid_step_result_is_reported(kind: str, message: str) -> None:
    with pytest.raises(EnvironmentBroken, match=f"faults/Faulty-v0 step: .*{message}"):
        asyncio.run(fault(kind))


def test_an_agent_that_breaks_its_sandbox_gets_an_outcome_in_every_environment() -> None:
    async def work() -> StepResult:
        owner = EnvThread(FAULTY, {"fault": "broken", "where": "step"})
        await owner.make(5)
        await owner.reset(0, "train", 5)
        last = await owner.step("fault", 5)
        await owner.close(5)
        return last

    last = asyncio.run(work())
    assert (last.reward, last.terminated, last.truncated, last.success) == (0.0, True, False, False)
    assert last.extras == {"tamper": ["the sandbox broke: its memory limit killed its guest agent"]}


def test_a_sandbox_that_something_outside_ended_is_a_failure() -> None:
    with pytest.raises(EnvironmentFailed, match="something outside the sandbox"):
        asyncio.run(fault("lost"))


@pytest.mark.parametrize("kind", ["raise", "exit"])
def test_a_raise_arrives_with_its_last_lines(kind: str) -> None:
    with pytest.raises(EnvironmentFailed, match="Faulty-v0 step raised") as raised:
        asyncio.run(fault(kind))
    assert "_go_wrong" in str(raised.value)
    assert str(raised.value).endswith({"raise": "LookupError: the page is gone", "exit": "SystemExit: 3"}[kind])


def test_a_reported_error_is_a_failure() -> None:
    with pytest.raises(EnvironmentFailed, match="the environment reports: browser crashed"):
        asyncio.run(fault("reported"))


@pytest.mark.parametrize("kind", ["long report", "long observation key"])
def test_a_long_text_of_the_environment_is_cut(kind: str) -> None:
    with pytest.raises(EnvError, match=r"characters\) … ") as raised:
        asyncio.run(fault(kind))
    assert len(str(raised.value)) < 2 * MAX_ERROR_CHARS


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("type", r"instructions\(\) returned int, not str"),
        ("large", r"the text of instructions\(\) has 50000000 bytes; the limit is"),
    ],
)
def test_invalid_instructions_are_reported(kind: str, message: str) -> None:
    with pytest.raises(EnvironmentBroken, match=f"Faulty-v0 make: {message}"):
        asyncio.run(fault(kind, "instructions"))


@pytest.mark.parametrize("where", ["make", "reset"])
def test_a_raise_before_the_first_turn(where: str) -> None:
    with pytest.raises(EnvironmentFailed, match=f"Faulty-v0 {where}.*LookupError: the page is gone|LookupError"):
        asyncio.run(fault("raise", where))


def test_a_broken_reset_is_named() -> None:
    with pytest.raises(EnvironmentBroken, match=r"reset returned str, not \(observation, info\)"):
        asyncio.run(fault("type", "reset"))


@pytest.mark.alone
@pytest.mark.parametrize("where", ["make", "reset", "step"])
def test_a_hang_ends_at_the_timeout_and_the_thread_is_abandoned(where: str) -> None:
    async def hang() -> tuple[float, str]:
        owner = EnvThread(FAULTY, {"fault": "hang", "where": where})
        began = time.monotonic()

        async def play() -> None:
            await owner.make(0.1)
            await owner.reset(0, "train", 0.1)
            await owner.step("fault", 0.1)

        with pytest.raises(EnvTimeout) as raised:
            await play()
        took = time.monotonic() - began
        assert owner.lost
        with pytest.raises(EnvTimeout, match="abandoned after an earlier call"):
            await owner.step("go", 0.1)
        await owner.close(0.1)
        return took, str(raised.value)

    took, message = asyncio.run(hang())
    assert took < 1.0
    assert message == f"{FAULTY} {where} did not return within 0.1 s; its thread is abandoned"
    assert abandoned_threads() == 1


def test_an_environment_cancelled_during_its_start_is_counted_and_closed() -> None:
    async def cancel() -> EnvThread:
        owner = EnvThread(FAULTY, {"fault": "hang", "where": "make"})
        making = asyncio.ensure_future(owner.make(5))
        await asyncio.sleep(0.05)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        return owner

    owner = asyncio.run(cancel())
    assert owner.lost
    assert abandoned_threads() == 1


def test_a_partly_created_environment_is_closed() -> None:
    async def make() -> None:
        owner = EnvThread(FAULTY, {"fault": "raise", "where": "instructions"})
        with pytest.raises(EnvironmentFailed, match="Faulty-v0 make raised"):
            await owner.make(5)
        with pytest.raises(EnvironmentFailed, match="not made, or already closed"):
            await owner.reset(0, "train", 5)

    MADE.clear()
    asyncio.run(make())
    ends = time.monotonic() + 5
    while not MADE[-1].closed and time.monotonic() < ends:
        threading.Event().wait(0.005)
    assert MADE[-1].closed


def test_a_hanging_close_is_abandoned() -> None:
    async def hang() -> None:
        owner = EnvThread(FAULTY, {"fault": "hang", "where": "close"})
        await owner.make(5)
        await owner.close(0.05)
        assert owner.lost

    asyncio.run(hang())
    assert abandoned_threads() == 1


def test_an_abandoned_thread_that_returns_closes_its_environment() -> None:
    async def hang() -> FaultyEnv:
        owner = EnvThread(FAULTY, {"fault": "hang"})
        await owner.make(5)
        made = await owner.run("look", lambda env: env, 5)
        with pytest.raises(EnvTimeout):
            await owner.step("fault", 0.05)
        assert isinstance(made, FaultyEnv)
        return made

    env = asyncio.run(hang())
    assert abandoned_threads() == 1
    time.sleep(0.2)
    assert not env.closed, "another thread closed it during the call"
    HANG.set()
    ends = time.monotonic() + 5
    while not env.closed and time.monotonic() < ends:
        threading.Event().wait(0.005)
    assert env.closed


@pytest.mark.alone
def test_a_hang_delays_no_other_environment() -> None:
    async def play() -> float:
        hung = asyncio.ensure_future(fault("hang", timeout_s=0.5))
        owner = EnvThread(FAULTY)
        await owner.make(5)
        await owner.reset(0, "train", 5)
        began = time.monotonic()
        for _ in range(100):
            await owner.step("go", 5)
        took = time.monotonic() - began
        await owner.close(5)
        with pytest.raises(EnvTimeout):
            await hung
        return took

    assert asyncio.run(play()) < 0.4


@pytest.mark.parametrize("kind", ["raise", "large", "nan"])
def test_reset_works_after_a_failure(kind: str) -> None:
    async def again() -> None:
        owner = EnvThread(FAULTY, {"fault": kind})
        await owner.make(5)
        for _ in range(2):
            await owner.reset(0, "train", 5)
            with pytest.raises(EnvError):
                await owner.step("fault", 5)
        seen = await owner.reset(1, "test", 5)
        assert seen.text == "on"
        assert not owner.lost
        await owner.close(5)
        with pytest.raises(EnvironmentFailed, match="not made, or already closed"):
            await owner.reset(0, "train", 5)

    asyncio.run(again())


def test_step_results_are_complete() -> None:
    async def look() -> Any:
        owner = EnvThread("turnwise/TextSite-v0", {"family": "open"})
        await owner.make(5)
        first = await owner.reset(3, "test", 5)
        action = await owner.run("oracle", lambda env: env.oracle(), 5)
        second = await owner.step(action, 5)
        last = await owner.step("done", 5)
        await owner.close(5)
        return owner, first, second, last

    owner, first, second, last = asyncio.run(look())
    assert owner.deterministic
    assert first.text.startswith("task open ")
    assert (first.reward, first.terminated, first.action_valid) == (0.0, False, True)
    assert (first.success, first.images) == (False, ())
    assert (second.reward, dict(second.reward_parts)) == (0.2, {"goal": 0.2})
    assert (last.reward, last.terminated, last.success) == (1.0, True, True)
    assert len({first.hash, second.hash, last.hash}) == 3
    assert last.ms >= 0


def test_a_snapshot_restores_in_another_thread() -> None:
    async def scenario() -> None:
        one, other = EnvThread("turnwise/TextSite-v0"), EnvThread("turnwise/TextSite-v0")
        await asyncio.gather(one.make(5), other.make(5))
        assert one.restorable
        await one.reset(3, "train", 5)
        first = await one.run("oracle", lambda env: env.oracle(), 5)
        await one.step(first, 5)
        await other.restore(await one.snapshot(5), 5)
        action = await other.run("oracle", lambda env: env.oracle(), 5)
        left, right = await one.step(action, 5), await other.step(action, 5)
        assert (left.hash, left.reward, left.state_key) == (right.hash, right.reward, right.state_key)
        await asyncio.gather(one.close(5), other.close(5))

    asyncio.run(scenario())


def test_a_snapshot_of_another_environment_is_a_failure() -> None:
    async def scenario() -> None:
        owner = EnvThread(FAULTY)
        await owner.make(5)
        assert not owner.restorable
        with pytest.raises(EnvironmentFailed, match="FaultyEnv has no snapshots"):
            await owner.snapshot(5)
        with pytest.raises(EnvironmentFailed, match="FaultyEnv has no snapshots"):
            await owner.restore(None, 5)
        await owner.close(5)

    asyncio.run(scenario())


def test_unknown_id_passes_through() -> None:
    with pytest.raises(UnknownEnvironment, match="did you mean 'turnwise/TextSite-v0'"):
        asyncio.run(EnvThread("turnwise/Site-v0").make(5))


def test_an_error_of_turnwise_is_reported_by_its_message_alone() -> None:
    failed = wrap_error("theirs/Plain-v3 reset", NoEngine("no Docker engine answers"))
    assert type(failed) is EnvironmentFailed
    assert str(failed) == "theirs/Plain-v3 reset: no Docker engine answers"
    assert isinstance(failed.__cause__, NoEngine)
