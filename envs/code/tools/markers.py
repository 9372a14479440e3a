"""Find the action in the text of an answer: after leading reasoning, and inside a fence.

A marker counts only in its place, because the text of an action may contain any marker:

* ``</think>`` ends reasoning only before the first line that names a tool;
* a fence holds the action only if no tool is named before it. A fence is closed by a line of at least as many
  backticks; a line with a language inside a fence opens a nested one.

Lines end with ``\\n`` only: other separators, such as U+2028, are content. Parsing takes linear time.
"""

import re
from collections.abc import Container

OPEN, CLOSE = "<think>", "</think>"
FENCE = re.compile(r"(?P<marks>`{3,})[ \t]*(?P<language>[^`\s]*)[^`]*")
"""A line that opens or closes a fenced block, without the blanks around it."""
BOUNDARY = re.compile(rf"\n|{re.escape(CLOSE)}")


class Unbalanced(ValueError):
    """The fences of a text do not match one another, so that the text has more than one reading."""


def after_reasoning(text: str, tools: Container[str], shells: Container[str]) -> str:
    """Return the text after its leading reasoning.

    The text before a line that names a tool, or opens a fence of a shell, is reasoning if ``</think>`` ends it.
    """
    kept = 0
    if text.lstrip().startswith(OPEN):
        kept = text.find(CLOSE) + len(CLOSE) if CLOSE in text else len(text)
    start, fence = kept, ""
    while start < len(text):
        found = BOUNDARY.search(text, start)
        end = found.start() if found else len(text)
        line = text[start:end].strip(" \t\r")
        opened = FENCE.fullmatch(line)
        if fence:
            fence = "" if opened and len(opened["marks"]) >= len(fence) and not opened["language"] else fence
        elif opened and opened["language"] not in shells:
            fence = opened["marks"]
        if line.partition(" ")[0] in tools or (opened and opened["language"] in shells):
            break
        start = found.end() if found else len(text)
        if found and found[0] == CLOSE and not fence:
            kept = start
    return text[kept:]


def fenced(text: str) -> list[tuple[str, str]]:
    """Return the language and the content of each outermost fenced block.

    Raises:
        Unbalanced: a block is not closed.
    """
    blocks, opened = list[tuple[str, str]](), list[str]()
    language, lines = "", list[str]()
    for line in text.split("\n"):
        found = FENCE.fullmatch(line.strip(" \t\r"))
        if found and not opened:
            opened, language, lines = [found["marks"]], found["language"], []
            continue
        if found and not found["language"] and len(found["marks"]) >= len(opened[-1]):
            opened.pop()
            if not opened:
                blocks.append((language, "".join(f"{each}\n" for each in lines)))
                continue
        elif found and found["language"] and len(found["marks"]) >= len(opened[0]):
            opened.append(found["marks"])
        if opened:
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
