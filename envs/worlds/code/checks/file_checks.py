"""Checks of the submitted files on the host: no process of the sandbox can forge them, because none runs.

Each check compares the files with expected ones, so that it never concludes from the absence of something: whatever is
not expected is a failure, and so is a file that cannot be read or parsed, a link, or a named pipe. The files come from
the agent. So each check takes linear time and bounds the size of a file before it parses it. Checks are values: equal
tasks have equal checks.
"""

import configparser
import io
import json
import tokenize
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .....sandbox import Kind, Tree

MAX_PARSED_BYTES = 4096
"""Maximum size of a checked file; the parser of INI files takes quadratic time for a line."""
FREE = frozenset({tokenize.COMMENT, tokenize.NL})
"""Tokens of Python that do not count."""
BY_KIND = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
"""Tokens of Python whose text does not count."""


class FileCheck(Protocol):
    """A check of the submitted files, hashable and picklable."""

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether the files pass. Raises nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ProgramsEqual:
    """The submission holds the expected Python files only, token by token; comments and layout do not count."""

    files: tuple[tuple[str, bytes], ...]
    """The expected files: path and content."""
    without: str
    """A name that must not occur in comments either."""

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether every file is as expected, and no other file exists."""
        expected = dict(self.files)
        try:
            return holds_only(files, expected) and all(
                self.without not in plain(files[path]) and tokens(files[path]) == tokens(expected[path])
                for path in expected
            )
        except (ValueError, SyntaxError, tokenize.TokenError):
            return False


@dataclass(frozen=True, slots=True)
class ConfigEquals:
    """The folder holds the expected configuration files only, with the expected settings; layout does not count."""

    folder: str
    files: tuple[tuple[str, bytes], ...]
    """The expected files: name and content, in the formats ``.ini``, ``.json`` and ``.env``."""

    def passes(self, files: Mapping[str, bytes]) -> bool:
        """Return whether every setting of every file is as expected."""
        prefix = f"{self.folder}/"
        left = Tree.of(files).only(lambda path: path.startswith(prefix))
        try:
            return holds_only(left, [prefix + name for name, _ in self.files]) and all(
                settings(name, left[prefix + name]) == settings(name, content) for name, content in self.files
            )
        except (ValueError, RecursionError, configparser.Error):
            return False


def holds_only(files: Mapping[str, bytes], expected: Collection[str]) -> bool:
    """Return whether a tree holds the expected files and nothing else but folders."""
    others = {path for path, entry in Tree.of(files).entries.items() if entry.kind is not Kind.FOLDER}
    return files.keys() == others == set(expected)


def plain(content: bytes) -> str:
    """Return the text of a file with lines that end in a newline, as every reader splits them.

    Raises:
        ValueError: the file is too large, is not UTF-8, or has other control characters than tabs and line ends.
    """
    if len(content) > MAX_PARSED_BYTES:
        raise ValueError(f"the file has more than {MAX_PARSED_BYTES} bytes")
    text = content.decode().replace("\r\n", "\n")
    if any(character < " " and character not in "\t\n" for character in text):
        raise ValueError("the file has control characters")
    return text


def tokens(program: bytes) -> list[tuple[int, str]]:
    """Return the tokens of a Python file that count: kind and text.

    Raises:
        ValueError: the file is not plain text.
        SyntaxError, tokenize.TokenError: the file is not Python.
    """
    found = tokenize.tokenize(io.BytesIO(plain(program).encode()).readline)
    return [(each.type, "" if each.type in BY_KIND else each.string) for each in found if each.type not in FREE]


def settings(name: str, content: bytes) -> Any:
    """Return the settings of a configuration file in a form in which equal settings are equal values.

    Raises:
        ValueError, RecursionError, configparser.Error: the file is not plain text, or it does not parse.
    """
    text = plain(content)
    if name.endswith(".json"):
        return json.loads(text, object_pairs_hook=_unique, parse_float=str, parse_constant=str)
    if name.endswith(".ini"):
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        return {section: dict(keys) for section, keys in parser.items()}
    if b"\r" in content:
        raise ValueError("a shell takes the carriage return of a line end for a part of the value")
    lines = [line for line in text.split("\n") if line.strip(" \t") and not line.startswith("#")]
    return _unique([_pair(line) for line in lines])


def _pair(line: str) -> tuple[str, str]:
    """Return key and value of a line ``KEY=VALUE``; to a shell, spaces around them belong to another command."""
    key, equals, value = line.partition("=")
    if not equals or (key, value) != (key.strip(), value.strip()):
        raise ValueError(f"{line!r} is not `KEY=VALUE` without spaces")
    return key, value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found
