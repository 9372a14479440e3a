"""Checks of the submitted files on the host: no process of the sandbox can forge them, because none runs.

The files come from the agent. So each check takes linear time, bounds the size of a file before it parses it, and
counts a file that does not parse as a failure. Checks are values: equal tasks have equal checks.
"""

import configparser
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

MAX_PARSED_BYTES = 4096
"""Maximum size of a configuration file; the parser of INI files takes quadratic time for a line."""

BLANK = " \t\r"
"""White space in a line of a ``.env`` file. To its readers, every other character is part of the value."""
MAX_HEAD_CHARS = 10_000
"""Maximum length of the first two lines of a Python file, which may declare its encoding."""
MAX_NORMALIZED_BYTES = 1 << 20
"""Maximum size of the Python files with other characters than ASCII, together; to normalize a MiB takes up to a quarter
of a second, in which every other thread of the worker waits."""
LINE_END = re.compile(r"\r\n|\r|\n")
ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""A comment that names the encoding of a Python file, as Python finds it."""


class FileCheck(Protocol):
    """A check of the submitted files, hashable and picklable."""

    @property
    def guessable(self) -> bool:
        """Return whether files that hold no answer pass, such as empty ones."""
        ...

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether the files pass. Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class NameGone:
    """No file contains the name; no Python file contains it in any spelling that Python reads as this name.

    Other files count, because a program can execute them.
    """

    name: str

    @property
    def guessable(self) -> bool:
        """Return True: an empty file holds no name."""
        return True

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether the name is gone from all files."""
        programs = [content for path, content in files.items() if path.endswith(".py")]
        if sum(len(content) for content in programs if not content.isascii()) > MAX_NORMALIZED_BYTES:
            return False
        return not any(self.name.encode() in content for content in files.values()) and not any(map(self._in, programs))

    def _in(self, program: bytes) -> bool:
        try:
            text = program.decode()
        except UnicodeDecodeError:
            return True
        return self.name in _normalized(text) or _declares_encoding(text)


@dataclass(frozen=True, slots=True)
class ConfigEquals:
    """The folder holds the expected configuration files only, with the expected settings; layout does not count."""

    folder: str
    files: tuple[tuple[str, bytes], ...]
    """The expected files: name and content, in the formats ``.ini``, ``.json`` and ``.env``."""

    @property
    def guessable(self) -> bool:
        """Return False: the settings are the answer."""
        return False

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether every setting of every file is as expected."""
        prefix = f"{self.folder}/"
        left = {path.removeprefix(prefix): content for path, content in files.items() if path.startswith(prefix)}
        try:
            return left.keys() == dict(self.files).keys() and all(
                settings(name, left[name]) == settings(name, content) for name, content in self.files
            )
        except (ValueError, RecursionError, configparser.Error):
            return False


def settings(name: str, content: bytes) -> Any:
    """Return the settings of a configuration file in a form in which equal settings are equal values.

    Raises:
        ValueError, RecursionError, configparser.Error: the file is too large, or it does not parse.
    """
    if len(content) > MAX_PARSED_BYTES:
        raise ValueError(f"{name} has more than {MAX_PARSED_BYTES} bytes")
    text = content.decode()
    if name.endswith(".json"):
        return json.loads(text, object_pairs_hook=_unique, parse_float=str, parse_constant=str)
    if name.endswith(".ini"):
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        return {section: dict(keys) for section, keys in parser.items()}
    lines = [line.strip(BLANK) for line in text.split("\n")]
    return _unique([_pair(line) for line in lines if line and not line.startswith("#")])


def _pair(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    if not equals:
        raise ValueError(f"no `=` in {line!r}")
    return key.strip(BLANK), value.strip(BLANK)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _normalized(text: str) -> str:
    """Return the text with each character in the normal form NFKC, in which Python compares identifiers.

    Normalizing the whole text would take quadratic time for a run of combining marks.
    """
    if text.isascii():
        return text
    return text.translate({ord(each): unicodedata.normalize("NFKC", each) for each in set(text) if not each.isascii()})


def _declares_encoding(text: str) -> bool:
    """Return whether one of the first two lines names an encoding other than UTF-8, or is too long to be searched."""
    heads = LINE_END.split(text, maxsplit=2)[:2]
    matches = [ENCODING.match(line) for line in heads if len(line) <= MAX_HEAD_CHARS]
    named = [match[1].lower() for match in matches if match is not None]
    return len(matches) < len(heads) or any(name not in ("utf-8", "utf8", "utf_8") for name in named)
