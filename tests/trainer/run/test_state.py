"""A request to stop cancels the work that it interrupts, and work that is done first keeps its result."""

import asyncio

import pytest
from turnwise.trainer.run.state import StopRequest


def test_work_without_a_request_returns_its_result() -> None:
    async def scenario() -> None:
        stop = StopRequest()

        async def work() -> int:
            return 3

        assert await stop.cancel_on_request(work()) == 3
        assert not stop

    asyncio.run(scenario())


def test_a_request_cancels_running_work_and_keeps_its_reason() -> None:
    async def scenario() -> None:
        stop, cleaned_up = StopRequest(), asyncio.Event()

        async def work() -> int:
            stop.request("SIGTERM")
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                cleaned_up.set()

        async with asyncio.timeout(10):
            assert await stop.cancel_on_request(work()) is None
        assert cleaned_up.is_set()
        assert stop
        assert stop.reason == "SIGTERM"

    asyncio.run(scenario())


def test_an_error_of_the_work_is_raised() -> None:
    async def scenario() -> None:
        async def work() -> int:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await StopRequest().cancel_on_request(work())

    asyncio.run(scenario())
