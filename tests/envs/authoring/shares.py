"""An environment that shares state with its process or with other instances in one way each. ``SHARES`` is its id."""

import asyncio
import csv
import decimal
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import zipimport
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

SHARES = "turnwise.tests.envs.authoring.shares:shares/Shares-v0"

SEEN: list[int] = []


def ignore_signals() -> None:
    """Set a handler as C code does: in any thread, behind Python's back."""
    import ctypes

    ctypes.CDLL(None).signal(int(signal.SIGUSR2), 1)


def leave_zombie() -> None:
    if os.fork() == 0:
        os._exit(0)


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(30,), name="left", daemon=False).start()


def patch() -> None:
    for owner, name in ((json.JSONDecoder, "decode"), (np, "argmax"), (random, "choice"), (time, "time")):
        setattr(owner, name, lambda *_: 0.0)


def leave_file() -> None:
    os.open("/dev/null", os.O_RDONLY)


def leave_daemon(seconds: float = 30) -> None:
    threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()


QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
"""Streams of a process that stays, so that it does not keep a pipe open for which a test waits."""


def leave_detached() -> None:
    subprocess.run(["sh", "-c", "setsid sleep 30 &"], check=True, **QUIET)


def lower(limit: int) -> None:
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, ((1 << 20 if soft == resource.RLIM_INFINITY else soft) - 1, hard))


def expire() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    time.sleep(0.002)


def to_tokyo() -> None:
    os.environ.update(TZ="Asia/Tokyo")
    time.tzset()


def new_policy() -> asyncio.AbstractEventLoopPolicy:
    class Policy(asyncio.DefaultEventLoopPolicy):
        pass

    return Policy()


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "folder": (lambda: os.chdir("/"), "the working directory (from"),
    "umask": (lambda: os.umask(0o007), "the umask"),
    "priority": (lambda: os.nice(1), "the priority of the process"),
    "processors": (lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}), "the CPUs of the process"),
    "variable": (lambda: os.environ.update(OMP_NUM_THREADS="3"), "environment variables (`OMP_NUM_THREADS`"),
    "limit": (lambda: lower(resource.RLIMIT_NPROC), "limits (`resource.setrlimit`)"),
    "signal": (ignore_signals, "the handlers of signals"),
    "mask": (lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}), "the signal mask"),
    "timer": (lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 3600), "timers"),
    "timer that expires": (expire, "timers"),
    "stream": (lambda: setattr(sys, "stdout", sys.stderr), "`sys.stdin`, `sys.stdout` or `sys.stderr`"),
    "descriptor": (lambda: os.dup2(os.open("/dev/zero", os.O_RDONLY), 0), "file descriptor 0, 1 or 2"),
    "blocking": (lambda: os.set_blocking(2, False), "file descriptor 0, 1 or 2"),
    "path": (lambda: sys.path.append("/elsewhere"), "`sys.path`"),
    "warnings": (lambda: warnings.simplefilter("ignore"), "filters of warnings"),
    "locale": (lambda: locale.setlocale(locale.LC_NUMERIC, "C.UTF-8"), "the locale"),
    "time zone": (to_tokyo, "the time zone"),
    "start method": (lambda: multiprocessing.set_start_method("spawn", force=True), "the start method"),
    "event loops": (lambda: asyncio.set_event_loop_policy(new_policy()), "the policy of event loops"),
    "sockets": (lambda: socket.setdefaulttimeout(1.0), "`socket.setdefaulttimeout`"),
    "recursion": (lambda: sys.setrecursionlimit(5000), "`sys.setrecursionlimit`"),
    "importers": (lambda: sys.path_hooks.append(zipimport.zipimporter), "importers (`sys.meta_path`"),
    "digits": (lambda: sys.set_int_max_str_digits(5000), "`sys.set_int_max_str_digits`"),
    "csv": (lambda: csv.field_size_limit(1 << 20), "`csv.field_size_limit`"),
    "tracing": (lambda: threading.setprofile(lambda *_: None), "hooks of threads"),
    "hook": (lambda: setattr(sys, "excepthook", print), "hooks of exceptions"),
    "logging": (lambda: logging.disable(logging.CRITICAL), "the configuration of logging"),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 7), "the decimal context"),
    "numpy errors": (lambda: np.seterr(all="raise"), "`np.seterr`"),
    "numpy texts": (lambda: np.set_printoptions(precision=2), "`np.set_printoptions`"),
    "functions": (patch, "(`json.decoder.JSONDecoder.decode`, `numpy.argmax`, `random.choice`, `time.time`)"),
}
"""Changes of the process, each with its part of the message."""
OF_A_THREAD = {"mask", "decimal", "numpy errors", "numpy texts", "priority", "processors"}
"""Changes of the calling thread alone; a constructor runs in another thread than the calls after it."""
LEAVES: dict[str, tuple[Callable[[], Any], str]] = {
    "process": (lambda: subprocess.Popen(["sleep", "30"], **QUIET), "`close` leaves process "),
    "detached process": (leave_detached, "`close` leaves process "),
    "zombie": (leave_zombie, "a zombie: nothing waited for it"),
    "thread": (leave_thread, "thread `left`"),
    "daemon thread": (leave_daemon, " more threads"),
    "file": (leave_file, " more open files"),
}
STREAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "random": (random.random, "depends on the global random stream of `random`: seed 0, turn 1"),
    "numpy": (np.random.rand, "depends on the global random stream of NumPy (`np.random`): seed 0, turn 1"),
    "reseeds random": (lambda: random.seed(5) or random.random(), "seeds the global random stream of `random`"),
    "reseeds numpy": (lambda: np.random.seed(5) or np.random.rand(), "seeds the global random stream of NumPy"),
}
DIFFERS: dict[str, str] = {
    "order of a set": "seed 0, turn 1, action 'go': line 1 of the observation was ",
    "hash of a text": "seed 0, turn 1, action 'go': `state_key` was ",
    "vocabulary of a set": "seed 0: `vocabulary` returns other or reordered values",
}
"""Values that differ between processes."""
WORDS = {"go", "on", *(f"word{number}" for number in range(20))}


class Shares(TurnEnv):
    """Three turns; the reward of a turn depends on ``way``, one or more names with ``+`` between."""

    total = 0

    def __init__(self, way: str = "", where: str = "step") -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))
        self._way, self._where = way, where
        self._run("make")

    def _run(self, where: str) -> float:
        value: Any = 0.0
        for way in self._way.split("+") if where == self._where else ():
            if found := {**CHANGES, **LEAVES, **STREAMS}.get(way):
                value = found[0]()
        return float(value) if self._way in STREAMS else 0.0

    def tasks(self, split: str) -> None:
        self._run("tasks")

    def vocabulary(self) -> list[str]:
        self._run("vocabulary")
        if self._way == "vocabulary of a set":
            return list(WORDS)
        raise NotImplementedError

    def close(self) -> None:
        self._run("close")

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self._turns = 0
        self._seed = seed or 0
        if self._way == "class attribute":
            Shares.total = self._seed
        if self._way == "module global":
            SEEN.clear()
        self._run("reset")
        seen = "on" if self._way in DIFFERS else f"on {seed} {(options or {}).get('split')}"
        return seen, {"state_key": "on"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self._turns += 1
        reward = self._run("step")
        if self._way == "class attribute":
            Shares.total += 1
            reward = float(Shares.total)
        if self._way == "module global":
            SEEN.append(self._turns)
            reward = float(len(SEEN))
        ended = self._turns == 3
        info: Info = {"action_valid": True, "state_key": "on"} | ({"success": True} if ended else {})
        if self._way == "hash of a text":
            info["state_key"] = str(hash("on"))
        return " ".join(WORDS) if self._way == "order of a set" else "on", reward, ended, False, info


gymnasium.register("shares/Shares-v0", entry_point=f"{__name__}:Shares")
