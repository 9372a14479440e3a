"""Text of an agent costs the worker linear time: no expression over it backtracks over the whole text."""

import time
from collections.abc import Callable

import pytest
from turnwise.envs.worlds.code.checks.file_checks import ConfigEquals, ProgramsEqual
from turnwise.envs.worlds.code.grading.forbidden import forbidden
from turnwise.envs.worlds.code.grading.tampering import aimed_at_grader
from turnwise.envs.worlds.code.task import FORGED_VERDICT
from turnwise.envs.worlds.code.tools.actions import MAX_ACTION_CHARS, parse
from turnwise.envs.worlds.semi_online.env import match_words
from turnwise.envs.worlds.web.actions import parse as parse_web_action

UNITS = (
    "```\n",
    "```a\n",
    "``` ",
    "\n```",
    "<<<<<<<\n",
    "<<<<<<<\na\n=======\n",
    "<<<<<<<\na\n=======\n>>>>>>>\n",
    " 1",
    "1 ",
    " ",
    "\n",
    "\t\n",
    "</think>",
    "`",
    "(",
    "[",
    "-",
    "\\",
    '"',
    "a.",
    "é",
    "click(",
    "/proc/1/",
    "builtins.a",
    "{",
    '"""',
    "= 1\n",
    "\u0301\u0323",
    "# coding: ",
)
HEADS = ("", "bash ", "view a", "view a 1", "edit a\n", "write a\n", "```\n")
BOUND_S = 0.5
"""Processor time for the longest text: linear readers take up to 10 ms, quadratic ones many seconds."""


def code(text: str) -> None:
    try:
        parse(text)
    except ValueError:
        return


def seconds(work: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    work(text)
    return time.thread_time() - began


READERS: dict[str, Callable[[str], object]] = {
    "code actions": code,
    "web actions": parse_web_action,
    "experts": lambda text: match_words(text, text, ("bash",)),
    "verdicts": lambda text: FORGED_VERDICT.search(text.encode()),
    "pyproject.toml": lambda text: forbidden("pyproject.toml", text.encode(), {}, {}),
    "programs": lambda text: ProgramsEqual((("a.py", b"b = 1\n"),), "a_b").passes({"a.py": text.encode()}),
    "settings": lambda text: [
        ConfigEquals("a", ((name, b""),)).passes({f"a/{name}": text.encode()}) for name in ("b.env", "b.ini", "b.json")
    ],
    "suspicions": lambda text: aimed_at_grader({"a.py": text.encode()}, {}),
    "setup.cfg": lambda text: forbidden("setup.cfg", text.encode(), {}, {}),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_text_takes_linear_time(reader: str) -> None:
    heads = HEADS if reader == "code actions" else ("",)
    for head in heads:
        for unit in UNITS:
            text = head + unit * ((MAX_ACTION_CHARS - len(head)) // len(unit))
            assert seconds(READERS[reader], text) < BOUND_S, f"{head!r} then many {unit!r}"
