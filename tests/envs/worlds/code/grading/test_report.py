"""A report of hidden tests that the code under test wrote is an outcome, and no failure of the environment."""

import json
from pathlib import Path
from typing import Any

import pytest
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.grading.pytest_host import Report, reports
from turnwise.tests.envs.worlds.code.small_task import small_task

HONEST: dict[str, Any] = {
    "collected": ["a"],
    "results": {"a": "passed"},
    "unfit": {},
    "errors": "",
    "tamper": [],
    "interrupted": False,
}
GARBAGE = """
import os, sys
def add(one, two):
    frame = sys._getframe()
    while frame is not None:
        if "nonce" in frame.f_locals and "out" in frame.f_locals:
            os.write(frame.f_locals["out"], f"\\n{frame.f_locals['nonce']}[]\\n".encode())
            os._exit(0)
        frame = frame.f_back
"""


CHANGES: tuple[dict[str, Any], ...] = ({"results": []}, {"tamper": 3}, {"errors": 1}, {"unfit": []}, {"more": 1})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "garbage",
        "[]",
        "3",
        "{}",
        "[" * 100_000,
        "1" * 10_000,
        *(json.dumps(HONEST | change) for change in CHANGES),
        json.dumps({key: value for key, value in HONEST.items() if key != "interrupted"}),
    ],
)
def test_a_line_that_is_no_report(line: str) -> None:
    assert reports(f"x\nNONCE{line}\n".encode(), "NONCE") == [None]


def test_the_reports_of_an_output() -> None:
    line = json.dumps(HONEST)
    found = reports(f"noise {line}\nNONCE{line}\nNONCE{line}".encode(), "NONCE")
    assert found == [Report(**HONEST)] * 2


def test_garbage_for_a_report_earns_nothing(docker: str, tmp_path: Path) -> None:
    env = CodeEnv(folder=str(small_task(tmp_path / "add")))
    env.reset(seed=0)
    env.step(f"write calc.py\n{GARBAGE}")
    _, reward, terminated, _, info = env.step("submit")
    assert (reward, terminated) == (0.0, True)
    assert info["extras"]["tamper"][-1] == "the report of the tests is not valid"
    env.close()
