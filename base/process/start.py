"""State with which a command, or a call of a program, began: its folder, variables and umask.

Environments may change them later. Relative paths are therefore resolved by ``absolute``, and Ray, whose processes
inherit all of it, starts after ``restore``.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Start:
    folder: Path
    variables: dict[str, str]
    umask: int


_start: _Start | None = None
"""The state at the start; None in a program outside of a call."""


def record_start() -> None:
    """Record the present state as that of the start, and make the folders of ``PYTHONPATH`` absolute."""
    global _start
    folder = Path.cwd()
    if path := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(str(folder / one) for one in path.split(os.pathsep))
    umask = os.umask(0)
    os.umask(umask)
    _start = _Start(folder, dict(os.environ), umask)


@contextlib.contextmanager
def recorded_start() -> Iterator[None]:
    """Inside the context, a call of a program, the state at its beginning is that of the start."""
    global _start
    if _start is not None:
        yield
        return
    record_start()
    try:
        yield
    finally:
        _start = None


def absolute(path: str | Path) -> Path:
    """Return a path below the folder of the start; an absolute one as it is."""
    return (Path.cwd() if _start is None else _start.folder) / path


def set_variable(name: str, value: str) -> None:
    """Set an environment variable of this process and of those that it starts."""
    os.environ[name] = value
    if _start is not None:
        _start.variables[name] = value


def restore() -> None:
    """Set the state of the process to that of the start, for the processes that it starts."""
    if _start is None:
        return
    os.chdir(_start.folder)
    os.umask(_start.umask)
    for name in os.environ.keys() - _start.variables.keys():
        del os.environ[name]
    os.environ.update(_start.variables)
