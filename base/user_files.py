"""Read a file that a user named: a regular file, up to a limit, or one line that says why not.

A FIFO or a device could block or never end. Every reader of a configuration, a task, a model folder or an import reads
by these functions.
"""

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


class UnreadableFile(TurnwiseError):
    """A file that a user named is missing, no regular file, too large or not text."""


def read_regular_file(path: Path | str, limit: int) -> bytes:
    """Return the content of a regular file, which links may lead to. Never waits.

    Args:
        limit: maximum size in bytes.

    Raises:
        UnreadableFile: the file is missing, cannot be read, is no regular file, or is larger than ``limit``.
    """
    with open_regular_file(path) as file:
        try:
            is_large = os.fstat(file.fileno()).st_size > limit
            content = b"" if is_large else file.read(limit + 1)
        except OSError as error:
            raise _refused(path, error.strerror or str(error)) from error
    if is_large or len(content) > limit:
        raise _refused(path, f"it has more than {limit:,} bytes, which are the limit")
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
        reason = f"byte {error.start:,} is invalid"
        raise UnreadableFile(f"{_name(path)} is not UTF-8 ({reason}): save the file as UTF-8") from error


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
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{_name(path)} is not JSON: {error}") from error
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


def open_regular_file(path: Path | str) -> BinaryIO:
    """Return a regular file, open for reading; the caller closes it.

    Raises:
        UnreadableFile: the file is missing, cannot be opened, or is not a regular file.
    """
    try:
        file = open(path, "rb", opener=_open_without_wait)  # noqa: SIM115 - Path.open takes no opener
    except FileNotFoundError as error:
        raise UnreadableFile(f"{_name(path)} does not exist") from error
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    except ValueError as error:  # a NUL, or a character that no path of this system has
        raise _refused(path, "the path contains a character that no path can have") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _refused(path, "it is not a regular file")
    return file


def _open_without_wait(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _refused(path: Path | str, reason: str) -> UnreadableFile:
    return UnreadableFile(f"{_name(path)} cannot be read: {reason}")


def _name(path: Path | str) -> str:
    """Return a path for a message, on one line."""
    shown = str(path)
    return f"`{shown}`" if shown.isprintable() else f"`{shown.encode('unicode_escape', 'replace').decode()}`"
