"""The threads of the event loop's executor are there before an environment can lower what a thread needs."""

import asyncio
import threading

from turnwise.process.executor import start_executor


def test_no_work_of_the_loop_starts_a_thread() -> None:
    async def works() -> tuple[int, int]:
        start_executor()
        before = threading.active_count()
        together = threading.Barrier(4)
        await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(4)))
        return before, threading.active_count()

    before, after = asyncio.run(works())
    assert before == after
