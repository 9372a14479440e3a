"""Processes that the agent, or code under test, left running are on record under every name."""

import time
from dataclasses import replace
from typing import Any

import pytest
from turnwise.envs.worlds.code.fresh_sandbox import open_sandbox
from turnwise.envs.worlds.code.grading.grade import grade
from turnwise.envs.worlds.code.grading.running import left_running
from turnwise.envs.worlds.code.instances import draw
from turnwise.envs.worlds.code.submission import HALT, collect_submission
from turnwise.sandbox import ExecResult, SandboxSpec, Tree

SPEC = SandboxSpec(memory_mib=128, disk_mib=8, trusted=True)
FORKS = b"import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n"


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (b"", ""),
        (b"\n python3\n sh", "python3 sh"),
        (b"\n  ", "(no name)"),
        (b"\n \n \\c", "(no name) \\c"),
        (b"\n \xff", "\ufffd"),
    ],
)
def test_every_process_counts(found: bytes, names: str) -> None:
    assert left_running(found) == names


def test_a_shell_that_does_not_end_the_processes_is_on_record(local: str) -> None:
    """A process of the agent traced the shell and ended it with exit code 0, in place of being ended by it."""
    box = open_sandbox(SPEC, Tree.of({"calc.py": b""}))
    execute = box.exec

    def traced(argv: list[str], **options: Any) -> ExecResult:
        return ExecResult(0, b"", b"") if argv[-1] == HALT else execute(argv, **options)

    box.exec = traced  # type: ignore[method-assign, assignment]
    found = collect_submission(box, Tree.of({"calc.py": b""}), time.monotonic() + 20)
    assert found.files == {"calc.py": b""}
    assert found.tamper == ("left processes running that could not be ended",)
    box.exec = execute  # type: ignore[method-assign]
    assert collect_submission(box, Tree.of({"calc.py": b""}), time.monotonic() + 20).tamper == ()
    box.release()


def test_a_process_that_outlives_a_case_is_on_record(local: str) -> None:
    drawn = draw(1, "train", "boundary")
    task = replace(drawn, spec=drawn.spec.model_copy(update={"trusted": True}))
    (path,) = task.workspace
    assert grade(task, {path: FORKS}).tamper == ("left running in its grading: python3",)
