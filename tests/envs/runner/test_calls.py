"""Environments that are not bound to a thread share one, and none waits for another's long call."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.envs.errors import EnvironmentFailed, EnvTimeout
from turnwise.envs.runner.call_thread import abandoned_threads
from turnwise.envs.runner.calls import is_slow
from turnwise.envs.runner.env_thread import EnvThread
from turnwise.tests.envs.runner.any_thread import ANY_THREAD, RELEASE, AnyThreadEnv


@pytest.fixture(autouse=True)
def nothing_hangs_after() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()
    wait_until(lambda: abandoned_threads() == 0)


def wait_until(true: Any) -> None:
    ends = time.monotonic() + 5
    while not true() and time.monotonic() < ends:
        threading.Event().wait(0.005)
    assert true()


async def started(count: int, label: str) -> list[EnvThread]:
    owners = [EnvThread(ANY_THREAD, {"label": label}) for _ in range(count)]
    await asyncio.gather(*(one.make(5) for one in owners))
    await asyncio.gather(*(one.reset(0, "train", 5) for one in owners))
    return owners


async def threads_of(owners: list[EnvThread]) -> set[str]:
    return {one.text for one in await asyncio.gather(*(one.step("thread", 5) for one in owners))}


async def close(owners: list[EnvThread]) -> None:
    await asyncio.gather(*(one.close(5) for one in owners))


def running() -> int:
    return sum(one.name.startswith("env ") for one in threading.enumerate())


def test_environments_share_one_thread_that_ends_with_them() -> None:
    before = running()

    async def play() -> set[str]:
        owners = await started(8, "share")
        used = await threads_of(owners)
        await close(owners)
        return used

    assert len(asyncio.run(play())) == 1
    wait_until(lambda: running() <= before)


def test_a_raise_of_one_does_not_reach_the_others() -> None:
    async def play() -> None:
        owners = await started(3, "raise")
        steps = [one.step(action, 5) for one, action in zip(owners, ["raise", "thread", "thread"], strict=True)]
        results = await asyncio.gather(*steps, return_exceptions=True)
        assert isinstance(results[0], EnvironmentFailed)
        assert "SystemExit: 3" in str(results[0])
        assert len(await threads_of(owners)) == 1
        await close(owners)

    asyncio.run(play())


def test_a_hang_ends_at_its_timeout_and_the_calls_behind_it_run() -> None:
    async def play() -> AnyThreadEnv:
        owners = await started(3, "hang")
        made = await owners[0].run("look", lambda env: env, 5)
        hung, *others = await asyncio.gather(
            owners[0].step("hang", 0.1), *(one.step("thread", 5) for one in owners[1:]), return_exceptions=True
        )
        assert isinstance(hung, EnvTimeout)
        assert str(hung) == f"{ANY_THREAD} step did not return within 0.1 s; its thread is abandoned"
        assert not any(isinstance(one, BaseException) for one in others)
        assert [one.lost for one in owners] == [True, False, False]
        with pytest.raises(EnvTimeout, match="abandoned after an earlier call"):
            await owners[0].step("thread", 5)
        await close(owners)
        assert isinstance(made, AnyThreadEnv)
        return made

    env = asyncio.run(play())
    assert abandoned_threads() == 1
    assert not env.closed
    RELEASE.set()
    wait_until(lambda: env.closed)


def test_a_close_does_not_wait_for_a_cancelled_call_that_hangs() -> None:
    async def play() -> None:
        (owner,) = await started(1, "cancel")
        step = asyncio.ensure_future(owner.step("hang", 60))
        await asyncio.sleep(0.05)
        step.cancel()
        began = time.monotonic()
        await owner.close(0.1)
        assert time.monotonic() - began < 5
        assert owner.lost

    asyncio.run(play())
    assert abandoned_threads() == 1


def test_environments_with_long_calls_leave_the_shared_thread() -> None:
    async def play() -> None:
        owners = await started(4, "long")
        await owners[0].step("0.3", 5)
        assert len(await threads_of(owners)) == 4
        seen = await asyncio.gather(*(one.step("0", 5) for one in owners))
        assert [one.text for one in seen] == ["on"] * 4
        await close(owners)

    asyncio.run(play())
    assert is_slow(f'{ANY_THREAD} {{"label": "long"}}')
    assert not is_slow(f'{ANY_THREAD} {{"label": "share"}}')
