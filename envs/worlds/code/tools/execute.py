"""Run an action in the agent's sandbox and return its result as text.

Command failures and missing files are part of the text. Only ``SandboxError`` is raised; the environment distinguishes
a lost sandbox from other sandbox errors.
"""

from dataclasses import dataclass

from .....sandbox import ExecResult, FileError, Kind, SandboxLease, Tree
from ..fresh_sandbox import FILE_TIMEOUT_S
from .actions import Action, Bash, Edit, View, Write
from .edit import NotApplied, edited
from .numbered_lines import line_count, numbered

MAX_LISTED_PATHS = 200
MAX_EDITED_BYTES = 1 << 20
"""Maximum size of a file that ``edit`` searches, since each of its blocks takes time in proportion."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The text that the agent reads, and whether the action was applied."""

    text: str
    applied: bool = True


def act(box: SandboxLease, action: Action, seconds: float, max_chars: int) -> ActionResult:
    """Run any action except ``submit``; ``seconds`` is its timeout, and ``max_chars`` bounds a shown file."""
    file_s = min(seconds, FILE_TIMEOUT_S)
    try:
        match action:
            case Bash(script):
                return ActionResult(format_result(box.exec(["bash", "-c", script], timeout_s=seconds), seconds))
            case View():
                return _view(box, action, max_chars, file_s)
            case Edit(path, blocks):
                return _edit(box, path, blocks, file_s)
            case Write(path, content, unfenced):
                box.write({path: content.encode()}, timeout_s=file_s)
                return ActionResult(f"wrote {path}{' without the fence around it' if unfenced else ''}")
    except FileError as error:
        return ActionResult(str(error).partition(": ")[2] or str(error), applied=False)
    raise AssertionError(f"{action} is not run by `act`")


def format_result(done: ExecResult, seconds: float) -> str:
    """Format the result of a command: exit status, standard output, standard error."""
    how = f"exit {done.exit_code}"
    if done.timed_out:
        how = f"killed: not over after {seconds:g} s"
    elif done.output_limit_exceeded:
        how = "killed: it printed too much"
    elif done.oom:
        how += ", out of memory"
    parts = [how, done.stdout.decode(errors="replace").rstrip()]
    if done.stderr.strip():
        parts += ["stderr:", done.stderr.decode(errors="replace").rstrip()]
    return "\n".join(part for part in parts if part)


def bounded(text: str, most: int) -> str:
    """Truncate to about ``most`` characters: head, omitted count, tail; replace unencodable characters."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def listing(tree: Tree) -> str:
    """List the entries of a tree, one per line, at most ``MAX_LISTED_PATHS``."""
    names = tree.names()
    more = [f"[... and {len(names) - MAX_LISTED_PATHS} more ...]"] if len(names) > MAX_LISTED_PATHS else []
    return "\n".join([*names[:MAX_LISTED_PATHS], *more])


def _view(box: SandboxLease, action: View, max_chars: int, timeout_s: float) -> ActionResult:
    path, first, last = action.path, action.first, action.last
    tree = box.read_tree(path, timeout_s=timeout_s)
    if "." not in tree.entries:
        return ActionResult(listing(tree) or f"{path} holds no files")
    if "." not in tree:
        return ActionResult(_not_a_file(path, tree), applied=False)
    content = tree["."]
    count = line_count(content)
    if first is not None and first > count:
        return ActionResult(f"{path} has {count} lines", applied=False)
    return ActionResult(numbered(content, first or 1, min(last or count, count), max_chars) or f"{path} is empty")


def _edit(box: SandboxLease, path: str, blocks: tuple[tuple[str, str], ...], timeout_s: float) -> ActionResult:
    files = box.read_tree(path, timeout_s=timeout_s)
    if "." not in files:
        return ActionResult(_not_a_file(path, files), applied=False)
    if len(files["."]) > MAX_EDITED_BYTES:
        limit = f"{MAX_EDITED_BYTES >> 20} MiB"
        return ActionResult(f"{path} is longer than {limit}, the limit of edit; use bash", applied=False)
    try:
        content = edited(files["."], tuple((old.encode(), new.encode()) for old, new in blocks))
    except NotApplied as error:
        return ActionResult(f"{path} is unchanged: {error}", applied=False)
    box.write({path: content}, timeout_s=timeout_s)
    return ActionResult(f"edited {path}: {len(blocks)} {'place' if len(blocks) == 1 else 'places'}")


def _not_a_file(path: str, tree: Tree) -> str:
    """Return what a path is, whose tree holds no file ``.``."""
    entry = tree.entries.get(".")
    if entry is None:
        return f"{path} is a folder"
    return f"{path} is a link to {entry.text}; use that" if entry.kind is Kind.LINK else f"{path}: {entry.text}"
