"""Read a file that a user named: a regular file, up to a limit, or one line that says why not.

A FIFO or a device could block or never end, and a file of ``/proc`` has no size. Every reader of a configuration, a
task, a model folder or an import reads by these functions.
"""

import errno
import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TurnwiseError

MAX_TOML_BYTES = 2**20
"""Limit on a TOML file, in bytes."""
MAX_JSON_BYTES = 2**28
"""Limit on a JSON file, in bytes: the vocabulary of a tokenizer takes tens of megabytes."""
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""")
"""A dotted key with more than 200 parts: the time to read one grows with the cube of its parts."""
KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), Path("/dev"))
"""Folders whose files are made by the kernel: they have no size, and a read may wait or have an effect."""
MEMORY = Path("/dev/shm")  # noqa: S108 - only read
"""The folder below them whose files people make."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class UnreadableFile(TurnwiseError):
    """A file that a user named is missing, no regular file, too large or not text."""


def read_regular_file(path: Path | str, limit: int) -> bytes:
    """Return the content of a regular file, which links may lead to. Never waits.

    Args:
        limit: maximum size in bytes.

    Raises:
        UnreadableFile: the file is missing, cannot be read, is no regular file, or is larger than ``limit``.
    """
    with open_regular_file(path, limit) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
    if len(content) > limit:
        raise _too_large(path, limit)
    return content


def read_regular_text(path: Path | str, limit: int) -> str:
    """Return the text of a regular file in UTF-8, without a byte order mark. Line ends stay as they are.

    Raises:
        UnreadableFile: as ``read_regular_file`` does, or the content is not UTF-8.
    """
    content = read_regular_file(path, limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        marks = (b"\xff\xfe", b"\xfe\xff")
        found = "it seems to be UTF-16" if content.startswith(marks) else f"byte {error.start:,} is invalid"
        raise UnreadableFile(f"{_name(path)} is not UTF-8 ({found}): save the file as UTF-8") from error


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return the content of a TOML file of at most ``MAX_TOML_BYTES``.

    Raises:
        UnreadableFile: as ``read_regular_text`` does, or the content is not TOML.
    """
    text = read_regular_text(path, MAX_TOML_BYTES)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise UnreadableFile(f"{_name(path)} is not valid TOML: {error}") from error


def read_json_object(path: Path | str) -> dict[str, Any]:
    """Return the object in a JSON file of at most ``MAX_JSON_BYTES``.

    Raises:
        UnreadableFile: as ``read_regular_text`` does, or the content is not a JSON object.
    """
    text = read_regular_text(path, MAX_JSON_BYTES)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UnreadableFile(f"{_name(path)} is not JSON: {error}") from error
    except RecursionError as error:
        raise UnreadableFile(f"{_name(path)} is not JSON: its values are nested too deeply") from error
    if not isinstance(value, dict):
        raise UnreadableFile(f"{_name(path)} holds no JSON object")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text.

    Raises:
        ValueError: it is not TOML, has a number of thousands of digits, or is nested too deeply; the message is one
            line.
    """
    if _DEEP_KEY.search(text):
        raise ValueError("it has a dotted key with more than 200 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def open_regular_file(path: Path | str, limit: int | None = None) -> BinaryIO:
    """Return a regular file, open for reading; the caller closes it.

    Args:
        limit: maximum size in bytes; None for any.

    Raises:
        UnreadableFile: the file is missing, cannot be opened, is no regular file, or is larger than ``limit``.
    """
    try:
        _check_kind(path, Path(path).stat())
        real = Path(os.path.realpath(path))
        if any(map(real.is_relative_to, KERNEL_FOLDERS)) and not real.is_relative_to(MEMORY):
            raise _refused(path, "the kernel makes its content; name a regular file")
        # A FIFO that takes the place of the file meanwhile is opened without a wait, and refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise UnreadableFile(f"{_name(path)} does not exist") from error
    except OSError as error:
        reason = "its links form a loop" if error.errno == errno.ELOOP else error.strerror or str(error)
        raise _refused(path, reason) from error
    except ValueError as error:  # a NUL, or a character that no path of this system has
        raise _refused(path, "the path contains a character that no path can have") from error
    file = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(descriptor)
        _check_kind(path, status)
        if limit is not None and status.st_size > limit:
            raise _too_large(path, limit)
    except BaseException:
        file.close()
        raise
    return file


def _check_kind(path: Path | str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise _refused(path, f"it is {kind}, not a regular file")


def _refused(path: Path | str, reason: str) -> UnreadableFile:
    return UnreadableFile(f"{_name(path)} cannot be read: {reason}")


def _too_large(path: Path | str, limit: int) -> UnreadableFile:
    return _refused(path, f"it has more than {limit:,} bytes, which are the limit")


def _name(path: Path | str) -> str:
    """Return a path for a message, on one line."""
    shown = str(path)
    return f"`{shown}`" if shown.isprintable() else f"`{shown.encode('unicode_escape', 'replace').decode()}`"
