"""Parse the text of an action. The first line names the tool:

    bash COMMAND                 or the script on the lines below
    view PATH [FIRST LAST]       a file with line numbers, or the files of a folder
    edit PATH                    then blocks of <<<<<<<, old lines, =======, new lines, >>>>>>>
    write PATH                   then the whole content
    submit

Reasoning up to ``</think>`` is dropped. A fenced block stands for its content, run by ``bash`` if the fence
names a shell. Parsing takes linear time: no expression matches across lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

TOOLS = ("bash", "view", "edit", "write", "submit")
FENCE = "```"
OPENING = re.compile(FENCE + r"[ \t]*(\w*)")
"""The first line of a fenced block, without the blanks around it; its group is the language."""
MARKS = {
    mark: re.compile(mark + r"{5,9}(?!" + mark + ")" + rest) for mark, rest in (("<", ".*"), ("=", r"\s*"), (">", ".*"))
}
MAX_ACTION_CHARS = 100_000
"""Maximum characters per action."""
MAX_EDIT_BLOCKS = 100
"""Maximum blocks per ``edit``; each of them searches the file once."""
SHELLS = frozenset({"bash", "sh", "shell"})


class MalformedAction(ValueError):
    """The text is not an action; the agent reads the message."""


@dataclass(frozen=True, slots=True)
class Bash:
    """Run a script."""

    script: str


@dataclass(frozen=True, slots=True)
class View:
    """Show lines ``first`` to ``last`` of a file, counted from 1; without them, the whole file."""

    path: str
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace each old text, which occurs exactly once, by the new text of its pair."""

    path: str
    blocks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Write:
    """Create or overwrite a file."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Submit:
    """End the episode and grade the files."""


Action: TypeAlias = Bash | View | Edit | Write | Submit


def parse(text: str) -> Action:
    """Return the action of a text.

    Raises:
        MalformedAction: the text is not an action.
    """
    if len(text) > MAX_ACTION_CHARS:
        raise MalformedAction(f"an action has at most {MAX_ACTION_CHARS} characters")
    text = text.rpartition("</think>")[2].lstrip("\n")
    head = text.split(None, 1)[0] if text.strip() else ""
    if head not in TOOLS:
        text = _unfenced(text)
    first, _, rest = text.lstrip().partition("\n")
    tool, _, argument = first.strip().partition(" ")
    argument = argument.strip()
    match tool:
        case "bash":
            return _bash(argument, rest)
        case "view":
            return _view(argument)
        case "edit":
            return _edit(argument, rest)
        case "write":
            if not argument:
                raise MalformedAction("write needs a path after `write` on the first line")
            content = _without_fence(rest)
            return Write(argument, content if content.endswith("\n") or not content else content + "\n")
        case "submit":
            return Submit()
    raise MalformedAction(f"the first line must name a tool: {', '.join(TOOLS)}")


def _fenced(text: str) -> list[tuple[str, str]]:
    """Return the language and the content of each complete fenced block."""
    blocks, lines = list[tuple[str, str]](), list[str]()
    language: str | None = None
    for line in text.split("\n"):
        bare = line.strip(" \t")
        if language is None:
            opening = OPENING.fullmatch(bare)
            language, lines = (opening[1] if opening else None), []
        elif bare == FENCE:
            blocks.append((language, "".join(f"{each}\n" for each in lines)))
            language = None
        else:
            lines.append(line)
    return blocks


def _without_fence(text: str) -> str:
    """Return what is between a fence on the first and a fence on the last line; without these, the text itself."""
    first, *lines = text.strip().split("\n")
    if lines and lines[-1].strip(" \t") == FENCE and OPENING.fullmatch(first.strip(" \t")):
        return "".join(f"{each}\n" for each in lines[:-1])
    return text


def _unfenced(text: str) -> str:
    blocks = _fenced(text)
    if len(blocks) > 1:
        raise MalformedAction("one action per turn: the answer has more than one fenced block")
    if not blocks:
        return text
    language, content = blocks[0]
    inner = content.split(None, 1)[0] if content.strip() else ""
    return f"bash\n{content}" if language in SHELLS and inner not in TOOLS else content


def _bash(argument: str, rest: str) -> Bash:
    script = f"{argument}\n{_without_fence(rest)}".strip("\n")
    if not script.strip():
        raise MalformedAction("bash needs a command")
    return Bash(script)


def _view(argument: str) -> View:
    if not argument:
        raise MalformedAction("view needs a path")
    path, *numbers = argument.rsplit(None, 2)
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return View(argument)
    first, last = (int(number[:9]) for number in numbers)
    if not 1 <= first <= last:
        raise MalformedAction("view PATH FIRST LAST: FIRST must be at least 1, and LAST must not be less than FIRST")
    return View(path, first, last)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the old and new lines of each complete block."""
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


def _edit(argument: str, rest: str) -> Edit:
    if not argument:
        raise MalformedAction("edit needs a path after `edit` on the first line")
    blocks = tuple(_blocks(rest))
    if not blocks:
        raise MalformedAction(
            "edit needs blocks: <<<<<<<, the old lines, =======, the new lines, >>>>>>>, each mark alone on its line"
        )
    if len(blocks) > MAX_EDIT_BLOCKS:
        raise MalformedAction(f"edit takes at most {MAX_EDIT_BLOCKS} blocks; use write or bash for larger changes")
    if any(not old for old, _ in blocks):
        raise MalformedAction("the old lines of a block are empty; use write to make a file")
    return Edit(argument, blocks)
