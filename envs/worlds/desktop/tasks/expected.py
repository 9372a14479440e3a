"""The expected end state of a task, and its comparison with the found one.

The whole world counts: a document that was not to change must have the same bytes and mode, and a file, a folder, a
link or a setting that the task does not request must not exist, hidden or not (``EndState.documents``). The Trash may
hold what the task removes.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .....sandbox import Entry
from ..spreadsheet import SpreadsheetError, Value, column, read_workbook
from ..task import EndState

EDITOR_SCHEMAS = tuple(
    f"org.xfce.mousepad.preferences.{part}" for part in ("file", "view", "view.show-whitespace", "window")
)
"""The schemas whose settings count; those of ``state`` change without the agent."""
CALCULATOR = "galculator"
"""The title of the calculator's window."""
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Text:
    """A text document; line ends at the end of the file are free."""

    text: str

    def matches(self, content: bytes) -> bool:
        """Return whether a file holds the text."""
        return content.rstrip(b"\n") == self.text.rstrip("\n").encode()


@dataclass(frozen=True, slots=True)
class Sheet:
    """A workbook with one sheet: the rows of its values, and the cells that must hold a formula."""

    rows: tuple[tuple[Value, ...], ...]
    formulas: frozenset[str] = frozenset()
    name: str = "Sheet1"

    def matches(self, content: bytes) -> bool:
        """Return whether a file is such a workbook."""
        try:
            found = read_workbook(content)
        except SpreadsheetError:
            return False
        expected = {
            f"{column(index)}{number}": value
            for number, row in enumerate(self.rows, 1)
            for index, value in enumerate(row)
            if value != ""
        }
        if list(found) != [self.name] or found[self.name].keys() != expected.keys():
            return False
        cells = found[self.name]
        return all(same_value(cells[at].value, value) for at, value in expected.items()) and all(
            bool(cell.formula) == (at in self.formulas) for at, cell in cells.items()
        )


Document = bytes | Text | Sheet


@dataclass(frozen=True, slots=True)
class Expected:
    """The state that an episode must end in."""

    documents: Mapping[str, Document]
    """All documents, by relative path; bytes stand for themselves."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The settings of the editor that differ from their defaults, by schema."""
    windows: tuple[str, ...] | None = None
    """The applications of the windows, sorted; None accepts any windows."""
    display: float | None = None
    """The number that the calculator shows."""
    answer: str | None = None
    """The expected answer; None accepts any answer."""
    feasible: bool = True
    """Whether the task can be solved; if not, the agent must end with ``fail()`` and change nothing."""

    def met(self, end: EndState) -> bool:
        """Return whether the end state is the expected one."""
        return (
            end.gave_up != self.feasible
            and self._documents_match(end)
            and self._trash_matches(end)
            and all(end.settings(schema) == self.settings.get(schema, {}) for schema in EDITOR_SCHEMAS)
            and (self.windows is None or tuple(sorted(window.application for window in end.windows)) == self.windows)
            and (self.display is None or self._displayed(end))
            and (self.answer is None or same_answer(self.answer, end.answer))
        )

    def _displayed(self, end: EndState) -> bool:
        """Return whether every calculator on the screen shows the number, and one does."""
        shown = displays(end)
        return self.display is not None and bool(shown) and all(same_value(text, self.display) for text in shown)

    def _documents_match(self, end: EndState) -> bool:
        found = end.documents
        return (
            found.keys() == self.documents.keys()
            and end.folders == _folders(self.documents)
            and all(same_document(found[path], document) for path, document in self.documents.items())
        )

    def _trash_matches(self, end: EndState) -> bool:
        """Return whether the Trash holds only documents that are not to stay where they were."""
        removed = Counter(content for path, content in end.task.files.items() if path not in self.documents)
        return Counter(end.trash.values()) <= removed


def same_document(found: bytes | Entry, expected: Document) -> bool:
    """Return whether what was found is a plain file with the expected content."""
    if not isinstance(found, bytes):
        return False
    return found == expected if isinstance(expected, bytes) else expected.matches(found)


def displays(end: EndState) -> list[str]:
    """Return the texts of the calculator's display: of the read-only text fields in its windows."""
    texts, inside = [], False
    for node in end.nodes:
        if not node.get("depth", 0):
            # Any program can show a dialog with this title.
            inside = (node["role"], node.get("name")) == ("window", CALCULATOR)
        elif inside and node["role"] == "textbox" and "readonly" in node.get("flags", ()):
            texts.append(str(node.get("value", "")).strip())
    return texts


def same_answer(expected: str, given: str) -> bool:
    """Return whether an answer is right; case, white space, quotes and a final full stop are free."""
    return _plain(expected) == _plain(given) or same_value(_plain(given), _plain(expected))


def same_value(found: str, expected: Value) -> bool:
    """Return whether a text equals a value: a number within 1e-9 of its size, another text exactly."""
    wanted = str(expected)
    if _NUMBER.fullmatch(wanted) and _NUMBER.fullmatch(found):
        return math.isclose(float(found), float(wanted), rel_tol=1e-9, abs_tol=1e-12)
    return found == wanted


def _folders(paths: Mapping[str, Any]) -> set[str]:
    parents = (path.split("/")[:-1] for path in paths)
    return {"/".join(parts[: end + 1]) for parts in parents for end in range(len(parts))}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("\"'").rstrip(".").strip("\"'")
