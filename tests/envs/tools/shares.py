"""An environment that shares state with its process or with other instances in one way each. ``SHARES`` is its id."""

import asyncio
import decimal
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
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

SHARES = "turnwise.tests.envs.tools.shares:shares/Shares-v0"

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


def lower(limit: int) -> None:
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, ((1 << 20 if soft == resource.RLIM_INFINITY else soft) - 1, hard))


def new_policy() -> asyncio.AbstractEventLoopPolicy:
    class Policy(asyncio.DefaultEventLoopPolicy):
        pass

    return Policy()


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "folder": (lambda: os.chdir("/"), "the working directory (from"),
    "umask": (lambda: os.umask(0o007), "the umask"),
    "variable": (lambda: os.environ.update(OMP_NUM_THREADS="3"), "environment variables (`OMP_NUM_THREADS`)"),
    "limit": (lambda: lower(resource.RLIMIT_NPROC), "limits (`resource.setrlimit`)"),
    "signal": (ignore_signals, "the handlers of signals"),
    "mask": (lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1}), "the signal mask"),
    "timer": (lambda: signal.setitimer(signal.ITIMER_REAL, 3600), "timers"),
    "stream": (lambda: setattr(sys, "stdout", sys.stderr), "`sys.stdin`, `sys.stdout` or `sys.stderr`"),
    "descriptor": (lambda: os.dup2(os.open("/dev/zero", os.O_RDONLY), 0), "file descriptor 0, 1 or 2"),
    "path": (lambda: sys.path.append("/elsewhere"), "`sys.path`"),
    "warnings": (lambda: warnings.simplefilter("ignore"), "filters of warnings"),
    "locale": (lambda: locale.setlocale(locale.LC_NUMERIC, "C.UTF-8"), "the locale"),
    "time zone": (lambda: (os.environ.update(TZ="Asia/Tokyo"), time.tzset()), "the time zone"),
    "start method": (lambda: multiprocessing.set_start_method("spawn", force=True), "the start method"),
    "event loops": (lambda: asyncio.set_event_loop_policy(new_policy()), "the policy of event loops"),
    "sockets": (lambda: socket.setdefaulttimeout(1.0), "`socket.setdefaulttimeout`"),
    "recursion": (lambda: sys.setrecursionlimit(5000), "`sys.setrecursionlimit`"),
    "hook": (lambda: setattr(sys, "excepthook", print), "hooks of exceptions"),
    "logging": (lambda: logging.disable(logging.CRITICAL), "the configuration of logging"),
    "decimal": (lambda: setattr(decimal.getcontext(), "prec", 7), "the decimal context"),
    "numpy errors": (lambda: np.seterr(all="raise"), "`np.seterr`"),
    "numpy texts": (lambda: np.set_printoptions(precision=2), "`np.set_printoptions`"),
    "function": (lambda: setattr(time, "time", lambda: 0.0), "functions of the standard library"),
}
"""Changes of the process, each with its part of the message."""
LEAVES: dict[str, tuple[Callable[[], Any], str]] = {
    "process": (lambda: subprocess.Popen(["sleep", "30"]), "`close` leaves process "),
    "zombie": (leave_zombie, "a zombie: nothing waited for it"),
    "thread": (
        lambda: threading.Thread(target=time.sleep, args=(30,), name="left", daemon=False).start(),
        "thread `left`",
    ),
}
STREAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "random": (random.random, "depends on the global random stream of `random`: seed 0, turn 1"),
    "numpy": (np.random.rand, "depends on the global random stream of NumPy (`np.random`): seed 0, turn 1"),
    "reseeds random": (lambda: random.seed(5) or random.random(), "it seeds the global random stream of `random`"),
    "reseeds numpy": (lambda: np.random.seed(5) or np.random.rand(), "it seeds the global random stream of NumPy"),
}


class Shares(TurnEnv):
    """Three turns; the reward of a turn depends on ``way``."""

    total = 0

    def __init__(self, way: str = "", where: str = "step") -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))
        self._way, self._where = way, where
        self._run("make")

    def _run(self, where: str) -> float:
        if where == self._where and (found := {**CHANGES, **LEAVES, **STREAMS}.get(self._way)):
            value = found[0]()
            return float(value) if self._way in STREAMS else 0.0
        return 0.0

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
        if self._way == "numpy":
            np.random.seed(self._seed)
        if self._way == "random":
            random.seed(self._seed)
        self._run("reset")
        return f"on {seed} {(options or {}).get('split')}", {"state_key": "on"}

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
        return "on", reward, ended, False, info


gymnasium.register("shares/Shares-v0", entry_point=f"{__name__}:Shares")
