"""An environment that shares state with its process or with other instances in one way each. ``SHARES`` is its id."""

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

SHARES = "turnwise.tests.envs.authoring.shares:shares/Shares-v0"

SEEN: list[int] = []


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(30,), name="left", daemon=False).start()


def leave_file() -> None:
    os.open("/dev/null", os.O_RDONLY)


def leave_daemon(seconds: float = 30) -> None:
    threading.Thread(target=time.sleep, args=(seconds,), daemon=True).start()


QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
"""Streams of a process that stays, so that it does not keep a pipe open for which a test waits."""


def lower(limit: int) -> None:
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, ((1 << 20 if soft == resource.RLIM_INFINITY else soft) - 1, hard))


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "folder": (lambda: os.chdir("/"), "the working directory"),
    "variable": (lambda: os.environ.update(OMP_NUM_THREADS="3"), "the environment variable `OMP_NUM_THREADS`"),
    "limit": (lambda: lower(resource.RLIMIT_NPROC), "limits (`resource.setrlimit`)"),
    "timer": (lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 3600), "timers"),
    "stream": (lambda: setattr(sys, "stdout", sys.stderr), "`sys.stdin`, `sys.stdout` or `sys.stderr`"),
    "descriptor": (lambda: os.dup2(os.open("/dev/zero", os.O_RDONLY), 0), "file descriptor 0, 1 or 2"),
}
"""Changes of the process, each with its part of the message."""
LEAVES: dict[str, tuple[Callable[[], Any], str]] = {
    "process": (lambda: subprocess.Popen(["sleep", "30"], **QUIET), "`close` leaves process "),
    "thread": (leave_thread, "thread `left`"),
    "daemon thread": (leave_daemon, " more threads"),
    "file": (leave_file, " more open files"),
}
STREAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "random": (random.random, "draws from the global random stream of `random` or seeds it"),
    "numpy": (np.random.rand, "draws from the global random stream of NumPy (`np.random`) or seeds it"),
    "reseeds random": (lambda: random.seed(5) or random.random(), "draws from the global random stream of `random`"),
    "reseeds numpy": (lambda: np.random.seed(5) or np.random.rand(), "draws from the global random stream of NumPy"),
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
