"""Work that takes longer than the interval is reported again and again, and no longer once it has ended."""

import asyncio

import pytest
from turnwise.trainer.telemetry import progress
from turnwise.trainer.telemetry.progress import remaining, reported


def test_lines_come_at_the_interval_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.05)
    lines: list[str] = []

    async def work(seconds: float) -> int:
        async with reported(lines.append, lambda so_far: f"{so_far >= 0.05}"):
            await asyncio.sleep(seconds)
        count = len(lines)
        await asyncio.sleep(0.1)
        return count

    assert asyncio.run(work(0.01)) == 0
    assert asyncio.run(work(0.2)) == len(lines) > 0
    assert set(lines) == {"True"}


def test_an_estimate_needs_work_that_is_done() -> None:
    assert (remaining(0, 8, 31.0), remaining(2, 8, 31.0)) == ("31 s so far", "about 93 s remain")
