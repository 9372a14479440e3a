"""The record of tampering fits into the info of a step, whatever names the agent gives its files."""

import json
from pathlib import Path

import pytest
from turnwise.envs.runner.step_result import MAX_INFO_CHARS, from_step
from turnwise.envs.worlds.code.env import CodeEnv
from turnwise.envs.worlds.code.grading.tampering import MAX_LINE_CHARS, MAX_LINES, recorded
from turnwise.tests.envs.worlds.code.small_task import small_task
from turnwise.tests.envs.worlds.code.test_env import BY_CASES

LONG = """bash
python3 - <<'END'
import os
for number in range(21):
    folder = f"{number}/" + "/".join(["\\U0001f600" * 40] * 4)
    os.makedirs(folder)
    open(f"{folder}/conftest.py", "w").close()
with open(b"\\xff.py", "w") as file:
    file.write("import sys\\nsys._getframe()\\n")
END"""


@pytest.mark.parametrize("character", ["\U0001f600", "\x01", "\n", "\\", '"', "'", "\udcff", "é", "x"])
def test_a_record_is_short_printable_and_bounded(character: str) -> None:
    record = recorded(f"{number} {character * 300}" for number in range(100))
    assert len(record) == MAX_LINES + 1
    assert record[-1] == f"and {100 - MAX_LINES} more"
    assert all(line.isascii() and line.isprintable() and len(line) <= MAX_LINE_CHARS for line in record)
    assert len(json.dumps(record)) < MAX_INFO_CHARS / 1.5


def test_lines_are_recorded_once() -> None:
    assert recorded(["a", "b", "a"]) == ["a", "b"]
    assert recorded([]) == []


def test_long_names_do_not_fail_the_step(local: str, tmp_path: Path) -> None:
    """The record exceeded the limit of the info: a failure of the environment in place of a reward of 0."""
    env = CodeEnv(folder=str(small_task(tmp_path / "add", toml=BY_CASES, hidden="")), trusted=True)
    env.reset(seed=0)
    assert env.step(LONG)[0] == "exit 0"
    result = from_step(env, env.step("submit"))
    assert (result.reward, result.terminated, len(result.extras["tamper"])) == (0.0, True, MAX_LINES + 1)
    env.close()
