"""An environment whose step starts processes in one way each, and ends them or leaves them. ``STARTS`` is its id."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

STARTS = "turnwise.tests.base.process.starts_processes:starts/Processes-v0"
LONG_S = 77.25
"""Seconds that a helper sleeps which is not ended: a name for it in the list of processes."""


def sleep() -> None:
    time.sleep(LONG_S)


def square(number: int) -> int:
    return number * number


def fork_and_signal(number: signal.Signals) -> None:
    started, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready, b"1")
        time.sleep(LONG_S)
        os._exit(9)
    os.read(started, 1)
    os.close(started)
    os.close(ready)
    os.kill(child, number)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Python turns SIGINT into KeyboardInterrupt, with which the copy of this step ends.
    assert status == (1 if number == signal.SIGINT else -number), status


def fork(leave: str) -> None:
    child = os.fork()
    if child == 0:
        if leave == "exit":
            sys.exit(3)
        if leave == "raise":
            raise LookupError("in the child")
        return
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == {"exit": 3, "raise": 1, "return": 0}[leave], status


def end_process(method: str) -> None:
    process = multiprocessing.get_context(method).Process(target=sleep)  # type: ignore[attr-defined]
    process.start()
    process.terminate()
    process.join()
    assert process.exitcode == -signal.SIGTERM


def pool(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as workers:
        assert workers.map(square, range(4)) == [0, 1, 4, 9]


def executor() -> None:
    with concurrent.futures.ProcessPoolExecutor(2) as workers:
        assert list(workers.map(square, range(4))) == [0, 1, 4, 9]


def end_program() -> None:
    process = subprocess.Popen(["sleep", str(LONG_S)])
    process.terminate()
    assert process.wait() == -signal.SIGTERM


def leave_fork() -> None:
    if os.fork() == 0:
        sleep()
        os._exit(0)


WAYS = {
    "fork, SIGTERM": lambda: fork_and_signal(signal.SIGTERM),
    "fork, SIGINT": lambda: fork_and_signal(signal.SIGINT),
    "fork, exit": lambda: fork("exit"),
    "fork, raise": lambda: fork("raise"),
    "fork, return": lambda: fork("return"),
    "process, fork": lambda: end_process("fork"),
    "process, spawn": lambda: end_process("spawn"),
    "process, forkserver": lambda: end_process("forkserver"),
    "pool, fork": lambda: pool("fork"),
    "executor": executor,
    "program": end_program,
    "event loop": lambda: asyncio.run(asyncio.sleep(0)),
    "leaves a process": lambda: multiprocessing.get_context("fork").Process(target=sleep).start(),
    "leaves a program": lambda: subprocess.Popen(["sleep", str(LONG_S)]),
    "leaves a fork": leave_fork,
    "leaves a thread": lambda: threading.Thread(target=sleep).start(),
    "leaves a zombie": lambda: subprocess.Popen(["true"]),
}


class StartsProcesses(TurnEnv):
    """Runs ``WAYS[way]`` in its first step, or in another call, then ends with success."""

    def __init__(self, way: str, where: str = "step") -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))
        self._way, self._where = way, where
        if where == "make":
            WAYS[way]()

    def oracle(self) -> str:
        return "go"

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0)]

    def vocabulary(self) -> list[str]:
        return ["go", "on"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        return "on", {"state_key": "on"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        if self._where == "step":
            WAYS[self._way]()
        return "on", 1.0, True, False, {"action_valid": True, "state_key": "on", "success": True}


gymnasium.register("starts/Processes-v0", entry_point=f"{__name__}:StartsProcesses")
