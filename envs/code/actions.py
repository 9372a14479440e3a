"""The text of an action, parsed. The first line names the tool:

    bash COMMAND                 or the script on the lines below
    view PATH [FIRST LAST]       a file with line numbers, or what a folder holds
    edit PATH                    then blocks of <<<<<<<, old lines, =======, new lines, >>>>>>>
    write PATH                   then the whole content
    submit

Reasoning up to ``</think>`` is left out, and a fenced block is taken for its content, ``bash`` if the fence says so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

TOOLS = ("bash", "view", "edit", "write", "submit")
FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
MARKS = {
    mark: re.compile(mark + r"{5,9}(?!" + mark + ")" + rest) for mark, rest in (("<", ".*"), ("=", r"\s*"), (">", ".*"))
}
LONGEST = 100_000
"""Characters of an action."""
SHELLS = frozenset({"bash", "sh", "shell"})


class Malformed(ValueError):
    """The text is no action; the message is for the agent."""


@dataclass(frozen=True, slots=True)
class Bash:
    """Run a script."""

    script: str


@dataclass(frozen=True, slots=True)
class View:
    """Show lines ``first`` to ``last`` of a file, counted from 1; all of it without them."""

    path: str
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace text that occurs exactly once, by pairs of old and new."""

    path: str
    blocks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Make a file, or write over it."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Submit:
    """End the episode: the files are judged as they are."""


Action: TypeAlias = Bash | View | Edit | Write | Submit


def parse(text: str) -> Action:
    """The action a text stands for.

    Raises:
        Malformed: none.
    """
    if len(text) > LONGEST:
        raise Malformed(f"an action has at most {LONGEST} characters")
    text = text.rpartition("</think>")[2].lstrip("\n")
    head = text.split(None, 1)[0] if text.strip() else ""
    if head not in TOOLS:
        text = _unfenced(text)
    first, _, rest = text.lstrip().partition("\n")
    tool, _, said = first.strip().partition(" ")
    said = said.strip()
    match tool:
        case "bash":
            return _bash(said, rest)
        case "view":
            return _view(said)
        case "edit":
            return _edit(said, rest)
        case "write":
            if not said:
                raise Malformed("write needs a path on its first line")
            whole = FENCE.fullmatch(rest.strip())
            content = whole[2] if whole else rest
            return Write(said, content if content.endswith("\n") or not content else content + "\n")
        case "submit":
            return Submit()
    raise Malformed(f"the first line must name a tool: {', '.join(TOOLS)}")


def _unfenced(text: str) -> str:
    blocks = FENCE.findall(text)
    if len(blocks) > 1:
        raise Malformed("one action a turn: there is more than one fenced block")
    if not blocks:
        return text
    language, content = blocks[0]
    inner = content.split(None, 1)[0] if content.strip() else ""
    return f"bash\n{content}" if language in SHELLS and inner not in TOOLS else content


def _bash(said: str, rest: str) -> Bash:
    whole = FENCE.fullmatch(rest.strip())
    script = f"{said}\n{whole[2] if whole else rest}".strip("\n")
    if not script.strip():
        raise Malformed("bash needs a command")
    return Bash(script)


def _view(said: str) -> View:
    path, *numbers = said.rsplit(None, 2) if re.search(r"\s\d+\s+\d+$", said) else (said,)
    if not path:
        raise Malformed("view needs a path")
    if not numbers:
        return View(path)
    first, last = (int(number[:9]) for number in numbers)
    if not 1 <= first <= last:
        raise Malformed("view PATH FIRST LAST: lines count from 1, the last is not before the first")
    return View(path, first, last)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The old and new lines of each whole block, in one pass."""
    old, new = list[str](), list[str]()
    part: list[str] | None = None
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        if part is None:
            if MARKS["<"].fullmatch(bare):
                old, new = [], []
                part = old
        elif part is old and MARKS["="].fullmatch(bare):
            part = new
        elif part is new and MARKS[">"].fullmatch(bare):
            yield "".join(old), "".join(new)
            part = None
        else:
            part.append(line)


def _edit(said: str, rest: str) -> Edit:
    if not said:
        raise Malformed("edit needs a path on its first line")
    blocks = tuple(_blocks(rest))
    if not blocks:
        raise Malformed(
            "edit needs blocks: <<<<<<<, the old lines, =======, the new lines, >>>>>>>, each mark on a line"
        )
    if any(not old for old, _ in blocks):
        raise Malformed("the old lines of a block are empty; use write to make a file")
    return Edit(said, blocks)
