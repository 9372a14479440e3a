"""Spreadsheet files (``.xlsx``): write the workbook of a task's start, and read one that an agent's application saved.

A file at the end of an episode is hostile input. Its parts are read up to a size, document types (hence entities) are
refused, and nothing in it names a path: a file that is not a plain workbook is a ``SpreadsheetError``.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

MAX_PART_BYTES = 4 * 2**20
"""Limit of one part of the file, unpacked."""
MAX_BYTES = 2**20
"""Of the file: its directory is read as a whole before the parts can be counted."""
MAX_PARTS = 200
MAX_SHEETS = 8
MAX_CELLS = 20_000
"""Limit of the cells of one sheet."""

Value = str | int | float
Workbook = Mapping[str, Mapping[str, "Cell"]]
"""The cells of each sheet by reference, such as ``B4``; empty cells are absent."""

_REFERENCE = re.compile(r"[A-Z]{1,3}[1-9][0-9]{0,6}", re.ASCII)
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_FORMAT = "application/vnd.openxmlformats-"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class SpreadsheetError(ValueError):
    """The content is not a workbook, or exceeds a limit."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell's value, and its formula without ``=``, empty for a constant."""

    value: str
    formula: str = ""


def column(index: int) -> str:
    """Return the letter of one of the first 26 columns, from 0."""
    return chr(ord("A") + index)


def write_workbook(rows: Sequence[Sequence[Value]], sheet: str = "Sheet1") -> bytes:
    """Return an ``.xlsx`` file with one sheet; the same rows give the same bytes. An empty text leaves a cell out."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Default Extension="rels" ContentType="{_FORMAT}package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_FORMAT}officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        f'ContentType="{_FORMAT}officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": _relationship("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        f'<sheet name={quoteattr(sheet)} sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relationship("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>{_rows(rows)}</sheetData></worksheet>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in parts.items():
            head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), head + text)
    return buffer.getvalue()


def read_workbook(content: bytes) -> Workbook:
    """Return the sheets of an ``.xlsx`` file in their order, by name.

    Raises:
        SpreadsheetError: the content is not a workbook, or exceeds a limit.
    """
    if len(content) > MAX_BYTES:
        raise SpreadsheetError(f"the file has {len(content)} bytes; at most {MAX_BYTES} are accepted")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive)
    except SpreadsheetError:
        raise
    except (zipfile.BadZipFile, zlib.error, expat.ExpatError, EOFError, OSError) as error:
        raise SpreadsheetError(f"not an .xlsx file: {type(error).__name__}") from error
    except (KeyError, IndexError, ValueError, NotImplementedError, RuntimeError) as error:
        raise SpreadsheetError(f"not a plain .xlsx file: {type(error).__name__}") from error


def _relationship(kind: str, target: str) -> str:
    link = f'<Relationship Id="rId1" Type="{_OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{link}</Relationships>'


def _rows(rows: Sequence[Sequence[Value]]) -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [_cell(f"{column(index)}{number}", value) for index, value in enumerate(row) if value != ""]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return "".join(lines)


def _cell(reference: str, value: Value) -> str:
    if isinstance(value, str):
        return f'<c r="{reference}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{reference}"><v>{value}</v></c>'


def _read(archive: zipfile.ZipFile) -> Workbook:
    if len(archive.infolist()) > MAX_PARTS:
        raise SpreadsheetError(f"the file has more than {MAX_PARTS} parts")
    targets: dict[str, str] = {}
    names: dict[str, str] = {}

    def link(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "Relationship":
            targets[attributes["Id"]] = "xl/" + attributes["Target"].removeprefix("/xl/")

    def sheet(tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sheet":
            names[attributes["name"]] = attributes["id"]

    _parse(_part(archive, "xl/_rels/workbook.xml.rels"), link)
    _parse(_part(archive, "xl/workbook.xml"), sheet)
    if not 1 <= len(names) <= MAX_SHEETS:
        raise SpreadsheetError(f"the file has {len(names)} sheets; between 1 and {MAX_SHEETS} are accepted")
    shared: tuple[str, ...] = ()
    if "xl/sharedStrings.xml" in archive.namelist():
        shared = _Strings(_part(archive, "xl/sharedStrings.xml")).found
    return {name: _Cells(_part(archive, targets[identity]), shared).found for name, identity in names.items()}


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SpreadsheetError(f"`{name}` has an unusual compression")
    with archive.open(info) as part:
        content = part.read(MAX_PART_BYTES + 1)
    if len(content) > MAX_PART_BYTES:
        raise SpreadsheetError(f"`{name}` is larger than {MAX_PART_BYTES} bytes")
    return content


def _refuse(*_: object) -> NoReturn:
    raise SpreadsheetError("the file declares a document type")


def _parse(
    content: bytes,
    start: Callable[[str, Mapping[str, str]], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Parse XML; the functions receive names without their prefix."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    parser.buffer_text = True

    def started(tag: str, attributes: Mapping[str, str]) -> None:
        start(_local(tag), {_local(name): value for name, value in attributes.items()})

    parser.StartElementHandler = started
    if end is not None:
        ended = end
        parser.EndElementHandler = lambda tag: ended(_local(tag))
    if text is not None:
        parser.CharacterDataHandler = text
    parser.Parse(content, True)


def _local(name: str) -> str:
    return name.rpartition(":")[2]


class _Strings:
    """The shared strings of a workbook."""

    def __init__(self, content: bytes) -> None:
        self._strings: list[list[str]] = []
        self._in_text = False
        _parse(content, self._start, self._end, self._text)

    @property
    def found(self) -> tuple[str, ...]:
        return tuple("".join(parts) for parts in self._strings)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "si":
            self._strings.append([])
        self._in_text = tag == "t"

    def _end(self, tag: str) -> None:
        self._in_text = False

    def _text(self, text: str) -> None:
        if self._in_text and self._strings:
            self._strings[-1].append(text)


class _Cells:
    """The cells of a sheet."""

    def __init__(self, content: bytes, shared: Sequence[str]) -> None:
        self.found: dict[str, Cell] = {}
        self._shared = shared
        self._reference, self._kind, self._tag = "", "", ""
        self._parts: dict[str, list[str]] = {}
        _parse(content, self._start, self._end, self._text)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._tag = tag
        if tag == "c":
            self._reference, self._kind, self._parts = attributes["r"], attributes.get("t", "n"), {}
            if not _REFERENCE.fullmatch(self._reference):
                raise SpreadsheetError("a cell has no plain reference")

    def _text(self, text: str) -> None:
        if self._tag in ("v", "t", "f"):
            self._parts.setdefault(self._tag, []).append(text)

    def _end(self, tag: str) -> None:
        self._tag = ""
        if tag != "c":
            return
        value, formula = self._joined("t" if self._kind == "inlineStr" else "v"), self._joined("f")
        if self._kind == "s":
            value = self._shared[int(value)]
        if value or formula:
            self.found[self._reference] = Cell(value, formula)
        if len(self.found) > MAX_CELLS:
            raise SpreadsheetError(f"a sheet has more than {MAX_CELLS} cells")

    def _joined(self, part: str) -> str:
        return "".join(self._parts.get(part, ()))
