"""Does an action in the agent's sandbox and says what came of it, in bounded text.

Whatever the command did, and whatever file is not there, is in the text. Only ``SandboxError`` is raised: the sandbox
is gone or the world failed, which to tell apart is the environment's business.
"""

from dataclasses import dataclass

from ...sandbox import ExecResult, FileError, SandboxLease
from .actions import Action, Bash, Edit, View, Write
from .fresh_sandbox import FILE_SECONDS

MOST_LISTED = 200


@dataclass(frozen=True, slots=True)
class Done:
    """What the agent sees of its action, and whether it could be applied."""

    text: str
    applied: bool = True


def act(box: SandboxLease, action: Action, seconds: float) -> Done:
    """Do anything but ``submit``; ``seconds`` are for a command."""
    try:
        match action:
            case Bash(script):
                return Done(told(box.exec(["bash", "-c", script], timeout_s=seconds), seconds))
            case View(path, first, last):
                return _view(box, path, first, last)
            case Edit(path, blocks):
                return _edit(box, path, blocks)
            case Write(path, content):
                box.write({path: _encoded(content)}, timeout_s=FILE_SECONDS)
                return Done(f"wrote {path}")
    except FileError as error:
        return Done(str(error).partition(": ")[2] or str(error), applied=False)
    raise AssertionError(f"{action} is not done here")


def told(done: ExecResult, seconds: float) -> str:
    """A command's end: how, then what it printed, then what it complained of."""
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
    """At most about ``most`` characters: the head, how much is left out, the tail. Only what can be encoded stays."""
    text = text.encode("utf-8", "replace").decode()
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def listing(paths: list[str]) -> str:
    """Paths, one a line, the first of them if they are many."""
    more = [f"[... and {len(paths) - MOST_LISTED} more ...]"] if len(paths) > MOST_LISTED else []
    return "\n".join([*sorted(paths)[:MOST_LISTED], *more])


def _view(box: SandboxLease, path: str, first: int | None, last: int | None) -> Done:
    files = box.read(path, timeout_s=FILE_SECONDS)
    if "." not in files:
        return Done(listing(list(files)) or f"{path} holds no files")
    lines = files["."].decode(errors="replace").splitlines()
    if first is not None and first > len(lines):
        return Done(f"{path} has {len(lines)} lines", applied=False)
    begin = (first or 1) - 1
    return Done(
        "\n".join(f"{number:5} {line}" for number, line in enumerate(lines[begin:last], begin + 1))
        or f"{path} is empty"
    )


def _edit(box: SandboxLease, path: str, blocks: tuple[tuple[str, str], ...]) -> Done:
    files = box.read(path, timeout_s=FILE_SECONDS)
    if "." not in files:
        return Done(f"{path} is no file", applied=False)
    ended = files["."].endswith(b"\n")
    content = files["."] if ended else files["."] + b"\n"
    for number, (old, new) in enumerate(blocks, 1):
        count = content.count(_encoded(old))
        if count != 1:
            where = "does not occur" if not count else f"occurs {count} times, and must occur once"
            return Done(f"{path} is unchanged: the old text of block {number} {where}", applied=False)
        content = content.replace(_encoded(old), _encoded(new))
    box.write({path: content if ended else content.removesuffix(b"\n")}, timeout_s=FILE_SECONDS)
    return Done(f"edited {path}: {len(blocks)} {'place' if len(blocks) == 1 else 'places'}")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
