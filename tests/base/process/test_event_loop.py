"""A coroutine runs to its end where no event loop runs, and inside one, as in a notebook."""

import asyncio
import re
import signal
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest
from turnwise import api
from turnwise.base.process import event_loop

ROOT = Path(__file__).resolve().parents[3]
CELL = ContextVar("CELL", default=0)


async def two() -> int:
    await asyncio.sleep(0)
    return 2


async def raises() -> None:
    raise LookupError("of the work")


def test_a_coroutine_returns_or_raises_with_and_without_a_running_loop() -> None:
    async def cell() -> None:
        assert event_loop.run(two()) == 2
        with pytest.raises(LookupError, match="of the work"):
            event_loop.run(raises())

    assert event_loop.run(two()) == 2
    asyncio.run(cell())


def test_the_work_sees_the_context_of_its_caller() -> None:
    async def read() -> int:
        return CELL.get()

    async def cell() -> int:
        CELL.set(5)
        return event_loop.run(read())

    assert asyncio.run(cell()) == 5


def test_an_interrupt_of_a_cell_cancels_the_work_and_waits_for_its_end() -> None:
    ended: list[str] = []

    async def work() -> None:
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("work")

    async def cell() -> None:
        former = signal.signal(signal.SIGINT, signal.default_int_handler)  # as a kernel
        try:
            with pytest.raises(KeyboardInterrupt):
                event_loop.run(work())
        finally:
            signal.signal(signal.SIGINT, former)

    asyncio.run(cell())
    assert ended == ["work"]


def test_an_evaluation_is_played_inside_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> float:
        return api.evaluate("oracle", "turnwise/TextSite-v0", tasks=2, store=f"sqlite:///{tmp_path}/s.db").success

    assert asyncio.run(cell()) == 1.0


def test_only_programs_start_an_event_loop_by_themselves() -> None:
    programs = {"envs/worlds/web/driver/server.py", "envs/authoring/other_process.py", "base/process/event_loop.py"}
    starts = {
        str(path.relative_to(ROOT))
        for part in ("api.py", "agents", "envs", "base", "sandbox", "store", "trainer")
        for path in ([ROOT / part] if part.endswith(".py") else (ROOT / part).rglob("*.py"))
        if re.search(r"\basyncio\.run\(", path.read_text("utf-8"))
    }
    assert starts == programs
