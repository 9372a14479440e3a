"""Profiles of the processor time of a process, by the Python stacks that spend it.

A thread samples the stacks of all threads a hundred times per second, and adds to each stack the processor time that
its thread has spent since. A thread that waits adds nothing. The file has one line per stack, ``outermost;...;innermost
MICROSECONDS``: the format of flame graphs, which https://www.speedscope.app and ``flamegraph.pl`` draw.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.01
"""Seconds between two samples."""
SWITCH_S = 1e-4
"""Seconds after which a thread that runs Python yields to the sampler. Python's default is 5 ms. A thread that works in
bursts shorter than 5 ms would be sampled only while it waits."""
NS_PER_US = 1000
SUFFIX = ".folded"


class StackSampler:
    """Samples the stacks of this process from ``start`` to ``stop``. Linux only, as the whole project."""

    def __init__(self) -> None:
        self._spent_us: Counter[str] = Counter()
        self._cpu_ns: dict[int, int] = {}
        """Processor time of each thread at the last sample, by the system's id of the thread."""
        self._stopping = threading.Event()
        self._switch_s = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._sample, name="stack sampler", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()
        self._switch_s = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)

    def stop(self, path: Path) -> None:
        """End, and write the stacks, the most expensive first.

        Raises:
            OSError: the file could not be written.
        """
        self.cancel()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{stack} {spent}\n" for stack, spent in self._spent_us.most_common() if spent))

    def cancel(self) -> None:
        """End, and write nothing."""
        self._stopping.set()
        self._thread.join()
        sys.setswitchinterval(self._switch_s)

    def _sample(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            frames = sys._current_frames()
            for thread in threading.enumerate():
                frame = frames.get(thread.ident or 0)
                if frame is None or thread is self._thread or thread.native_id is None:
                    continue
                now = _cpu_ns(thread.native_id)
                before = self._cpu_ns.get(thread.native_id, now)
                self._cpu_ns[thread.native_id] = now
                if now > before:
                    names = [thread.name, *reversed(list(map(_name, _frames(frame))))]
                    self._spent_us[";".join(names)] += (now - before) // NS_PER_US


class ProfiledActor:
    """The methods by which a driver profiles the process of an actor."""

    _sampler: StackSampler | None = None

    def start_profile(self) -> None:
        """Begin to sample the stacks of this process."""
        if self._sampler is None:
            self._sampler = StackSampler()
            self._sampler.start()

    def stop_profile(self, folder: str, process: str) -> None:
        """End, and write ``<process>-<pid>.folded`` into a folder of this host.

        Raises:
            OSError: the file could not be written.
        """
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.stop(Path(folder) / f"{process}-{os.getpid()}{SUFFIX}")


def _cpu_ns(native_id: int) -> int:
    """Return the processor time of a thread of this process in nanoseconds; 0 if it has ended."""
    try:
        return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text().split()[0])
    except OSError:
        return 0


def _frames(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", "?")
    return f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}"
