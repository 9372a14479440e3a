"""Spreadsheet files (``.xlsx``): write the workbook of a task's start, and read one that an agent's application saved.

A file at the end of an episode is hostile input. Its parts are read up to a size, document types (hence entities) are
refused, and nothing in it names a path: a file that is not a plain workbook is a ``SpreadsheetError``.
"""

import io
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
MAX_ELEMENTS = 100_000
"""Limit of the cells of one sheet with the empty ones, and of the texts that sheets share."""

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
    links = [link for link, _ in _elements(_part(archive, "xl/_rels/workbook.xml.rels"), "Relationship")]
    targets = {link["Id"]: "xl/" + link["Target"].removeprefix("/xl/") for link in links}
    sheets = {sheet["name"]: sheet["id"] for sheet, _ in _elements(_part(archive, "xl/workbook.xml"), "sheet")}
    if not 1 <= len(sheets) <= MAX_SHEETS:
        raise SpreadsheetError(f"the file has {len(sheets)} sheets; between 1 and {MAX_SHEETS} are accepted")
    shared: list[str] = []
    if "xl/sharedStrings.xml" in archive.namelist():
        shared = ["".join(texts["t"]) for _, texts in _elements(_part(archive, "xl/sharedStrings.xml"), "si")]
    return {name: _cells(_part(archive, targets[identity]), shared) for name, identity in sheets.items()}


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SpreadsheetError(f"`{name}` has an unusual compression")
    with archive.open(info) as part:
        content = part.read(MAX_PART_BYTES + 1)
    if len(content) > MAX_PART_BYTES:
        raise SpreadsheetError(f"`{name}` is larger than {MAX_PART_BYTES} bytes")
    return content


def _cells(content: bytes, shared: Sequence[str]) -> dict[str, Cell]:
    found: dict[str, Cell] = {}
    for attributes, texts in _elements(content, "c"):
        reference, kind = attributes["r"], attributes.get("t", "n")
        if not _REFERENCE.fullmatch(reference):
            raise SpreadsheetError("a cell has no plain reference")
        value, formula = "".join(texts["t" if kind == "inlineStr" else "v"]), "".join(texts["f"])
        if kind == "s":
            value = shared[int(value)]
        if value or formula:
            found[reference] = Cell(value, formula)
    if len(found) > MAX_CELLS:
        raise SpreadsheetError(f"a sheet has more than {MAX_CELLS} cells")
    return found


def _elements(content: bytes, wanted: str) -> list[tuple[dict[str, str], Mapping[str, list[str]]]]:
    """Return the attributes of each element ``wanted`` and, by name, the texts in it; names are without a prefix."""
    found: list[tuple[dict[str, str], Mapping[str, list[str]]]] = []
    inside, tag = False, ""

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal inside, tag
        tag = _local(name)
        if tag == wanted:
            inside = True
            found.append(({_local(key): value for key, value in attributes.items()}, defaultdict(list)))
        if len(found) > MAX_ELEMENTS:
            raise SpreadsheetError(f"a part has more than {MAX_ELEMENTS} elements `{wanted}`")

    def end(name: str) -> None:
        nonlocal inside, tag
        tag, inside = "", inside and _local(name) != wanted

    def text(content: str) -> None:
        if inside and tag:
            found[-1][1][tag].append(content)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.Parse(content, True)
    return found


def _refuse(*_: object) -> NoReturn:
    raise SpreadsheetError("the file declares a document type")


def _local(name: str) -> str:
    return name.rpartition(":")[2]
