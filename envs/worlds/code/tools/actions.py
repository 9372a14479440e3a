"""Parse the text of an action. The first line names the tool:

    bash COMMAND                 or the script on the lines below
    view PATH [FIRST LAST]       a file with line numbers, or the files of a folder
    edit PATH                    then blocks of old and new lines (``edit``)
    write PATH                   then the whole content
    submit

Leading reasoning is dropped, and a fenced block stands for its content, run by ``bash`` if the fence names a shell
(``markers``). Parsing takes linear time: no expression matches across lines.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from .edit import Ambiguous, blocks
from .markers import Unbalanced, after_reasoning, fenced, without_fence

TOOLS = ("bash", "view", "edit", "write", "submit")
MAX_ACTION_CHARS = 100_000
"""Maximum characters per action."""
MAX_EDIT_BLOCKS = 100
"""Maximum blocks per ``edit``; each of them searches the file once."""
SHELLS = frozenset({"bash", "sh", "shell"})
FENCED_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".mdown", ".rmd", ".qmd", ".rst", ".txt"})
"""Suffixes of files that may hold nothing but a fenced block: ``write`` keeps its fence."""


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
    unfenced: bool = False
    """Whether a fence around the content was dropped."""


@dataclass(frozen=True, slots=True)
class Submit:
    """End the episode and grade the files."""


Action: TypeAlias = Bash | View | Edit | Write | Submit


def parse(text: str) -> Action:
    """Return the action of a text. Raises MalformedAction: the text is not an action."""
    if len(text) > MAX_ACTION_CHARS:
        raise MalformedAction(f"an action has at most {MAX_ACTION_CHARS} characters")
    if any("\ud800" <= each <= "\udfff" for each in text):
        raise MalformedAction("the action contains half of a surrogate pair, which no file can hold")
    text = after_reasoning(text, TOOLS, SHELLS).lstrip("\n")
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
            return _write(argument, rest)
        case "submit":
            return Submit()
    raise MalformedAction(f"the first line must name a tool: {', '.join(TOOLS)}")


def _unfenced(text: str) -> str:
    try:
        found = fenced(text)
    except Unbalanced as error:
        raise MalformedAction(str(error)) from None
    if len(found) > 1:
        raise MalformedAction("one action per turn: the answer has more than one fenced block")
    if not found:
        return text
    language, content = found[0]
    inner = content.split(None, 1)[0] if content.strip() else ""
    return f"bash\n{content}" if language in SHELLS and inner not in TOOLS else content


def _bash(argument: str, rest: str) -> Bash:
    # The rest of a script, such as a here-document, may begin and end with fences of its own.
    script = f"{argument}\n{rest if argument else without_fence(rest)}".strip("\n")
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


def _write(argument: str, rest: str) -> Write:
    if not argument:
        raise MalformedAction("write needs a path after `write` on the first line")
    path = PurePosixPath(argument)
    own = path.suffix.lower() in FENCED_SUFFIXES or path.name.upper() == "README"
    content = rest if own else without_fence(rest)
    return Write(
        argument, content if content.endswith("\n") or not content else f"{content}\n", unfenced=content is not rest
    )


def _edit(argument: str, rest: str) -> Edit:
    if not argument:
        raise MalformedAction("edit needs a path after `edit` on the first line")
    try:
        found = tuple(blocks(rest))
    except Ambiguous as error:
        raise MalformedAction(str(error)) from None
    if not found:
        raise MalformedAction(
            "edit needs blocks: <<<<<<<, the old lines, =======, the new lines, >>>>>>>, each mark alone on its line"
        )
    if len(found) > MAX_EDIT_BLOCKS:
        raise MalformedAction(f"edit takes at most {MAX_EDIT_BLOCKS} blocks; use write or bash for larger changes")
    if any(not old for old, _ in found):
        raise MalformedAction("the old lines of a block are empty; use write to make a file")
    return Edit(argument, found)
