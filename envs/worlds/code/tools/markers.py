"""Find the action in the text of an answer: after reasoning without a begin, and inside a fence.

The runner of an environment removes thoughts from ``<think>`` to ``</think>`` (``runner.thoughts``). A server may
return thoughts without their begin: only the names of the tools separate them from an action with ``</think>``.

A marker counts only in its place, because the text of an action may contain any marker:

* ``</think>`` ends reasoning only before the first line that names a tool. After a closed fence that could hold an
  action, it ends reasoning only if it is alone on its line and the fences of the text after it are closed;
* a fence holds the action only if no tool is named before it. A fence is closed by a line of at least as many
  backticks; a line with a language inside a fence opens a nested one.

Lines end with ``\\n`` only: other separators, such as U+2028, are content. Parsing takes linear time.
"""

import re
from collections.abc import Container

CLOSE = "</think>"
FENCE = re.compile(r"(?P<marks>`{3,})[ \t]*(?P<language>[^`\s]*)[^`]*")
"""A line that opens or closes a fenced block, without the blanks around it."""
BOUNDARY = re.compile(rf"\n|{re.escape(CLOSE)}")
REST_OF_LINE = re.compile(r"[ \t\r]*(?:\n|\Z)")


class Unbalanced(ValueError):
    """The fences of a text do not match one another, so that the text has more than one reading."""


def after_reasoning(text: str, tools: Container[str], shells: Container[str]) -> str:
    """Return the text after its leading reasoning.

    The text before a line that names a tool is reasoning if ``</think>`` ends it.
    """
    kept, start, sure, opened, action = 0, 0, 0, list[str](), False
    while start < len(text):
        found = BOUNDARY.search(text, start)
        end = found.start() if found else len(text)
        line = text[start:end].strip(" \t\r")
        fence, tool = FENCE.fullmatch(line), line.partition(" ")[0] in tools
        if tool and not opened:
            break
        action = action or tool or bool(fence and fence["language"] in shells)
        if fence:
            _nest(opened, fence)
        begins = not line and (not start or text[start - 1] == "\n")
        start = found.end() if found else len(text)
        alone = begins and REST_OF_LINE.match(text, start)
        if found and found[0] == CLOSE and not opened and (alone or not action):
            kept, sure = start, sure if action else start
    return text[kept if kept == sure or _is_answer(text[kept:]) else sure :]


def _nest(opened: list[str], fence: re.Match[str]) -> None:
    """Open or close a block at a line; ``opened`` are the marks of the blocks around it, outermost first."""
    if not opened:
        opened.append(fence["marks"])
    elif not fence["language"] and len(fence["marks"]) >= len(opened[-1]):
        opened.pop()
    elif fence["language"] and len(fence["marks"]) >= len(opened[0]):
        opened.append(fence["marks"])


def _is_answer(text: str) -> bool:
    try:
        fenced(text)
    except Unbalanced:
        return False
    return bool(text.strip())


def fenced(text: str) -> list[tuple[str, str]]:
    """Return the language and the content of each outermost fenced block. Raises Unbalanced: a block is not closed."""
    blocks, opened = list[tuple[str, str]](), list[str]()
    language, lines = "", list[str]()
    for line in text.split("\n"):
        found, inside = FENCE.fullmatch(line.strip(" \t\r")), bool(opened)
        if found:
            _nest(opened, found)
        if found and not inside:
            language, lines = found["language"], []
        elif inside and not opened:
            blocks.append((language, "".join(f"{each}\n" for each in lines)))
        elif inside:
            lines.append(line)
    if opened:
        raise Unbalanced("a fence of the answer is not closed; around a text with fences, use more backticks")
    return blocks


def without_fence(text: str) -> str:
    """Return the content of the one fenced block that is the whole text; without it, the text itself."""
    lines = text.strip("\n").split("\n")
    if not FENCE.fullmatch(lines[0].strip(" \t\r")):
        return text
    try:
        blocks = fenced(text)
    except Unbalanced:
        return text
    whole = len(blocks) == 1 and blocks[0][1].count("\n") == len(lines) - 2
    return blocks[0][1] if whole else text
