"""Threads of the event loop's executor, started before the code of environments runs.

An environment that lowers the memory of its process, or the number of its threads, does so in the middle of its call.
A thread that starts in this moment dies before it reports that it has started, and the thread that started it waits
without end. So the executor's threads start first.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

MAX_THREADS = 32
"""As of asyncio's own executor, which has four threads more than the machine has cores, and at most this many."""


def start_executor() -> None:
    """Give the running event loop an executor with all its threads started; ``asyncio.to_thread`` uses it."""
    count = min(MAX_THREADS, (os.cpu_count() or 1) + 4)
    executor = ThreadPoolExecutor(count, thread_name_prefix="asyncio")
    started = threading.Barrier(count + 1)
    for _ in range(count):
        executor.submit(started.wait)
    started.wait()
    asyncio.get_running_loop().set_default_executor(executor)
