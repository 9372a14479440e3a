"""Workbooks are written and read; a hostile file is an error within its limits."""

import io
import zipfile

import pytest
from turnwise.envs.worlds.desktop import spreadsheet
from turnwise.envs.worlds.desktop.spreadsheet import Cell, SpreadsheetError, read_workbook, write_workbook

ROWS = (("Item", "Price"), ("a <b> & 'c'", 2.5), ("", 7))
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def changed(part: str, text: str | bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a workbook in which one part is replaced or added."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(write_workbook(ROWS))) as old,
        zipfile.ZipFile(buffer, "w", compression) as new,
    ):
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
        new.writestr(part, text)
    return buffer.getvalue()


def sheet(cells: str) -> bytes:
    return changed("xl/worksheets/sheet1.xml", f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData></worksheet>')


def test_a_workbook_is_read_as_it_was_written() -> None:
    found = read_workbook(write_workbook(ROWS, "Costs"))
    cells = {"A1": "Item", "B1": "Price", "A2": "a <b> & 'c'", "B2": "2.5", "B3": "7"}
    assert found == {"Costs": {reference: Cell(value) for reference, value in cells.items()}}
    assert write_workbook(ROWS) == write_workbook(ROWS)


def test_formulas_and_shared_strings_are_read() -> None:
    cells = '<c r="A1" t="s"><v>1</v></c><c r="B1"><f>SUM(B2:B3)</f><v>9</v></c>'
    content = io.BytesIO(sheet(cells))
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(
            "xl/sharedStrings.xml", "<sst><si><t>one</t></si><si><r><t>t</t></r><r><t>wo</t></r></si></sst>"
        )
    assert read_workbook(content.getvalue()) == {"Sheet1": {"A1": Cell("two"), "B1": Cell("9", "SUM(B2:B3)")}}


def test_a_large_file_is_not_opened() -> None:
    with pytest.raises(SpreadsheetError, match="at most 1048576 are accepted"):
        read_workbook(write_workbook(ROWS) + bytes(2**20))


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheet, "MAX_PART_BYTES", 2**16)
    with pytest.raises(SpreadsheetError, match="larger than 65536 bytes"):
        read_workbook(sheet(" " * 2**20))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE w [<!ENTITY a "aaaa">]><worksheet>&a;</worksheet>'
    with pytest.raises(SpreadsheetError, match="document type"):
        read_workbook(changed("xl/worksheets/sheet1.xml", text.encode(encoding)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a zip",
        write_workbook(ROWS)[:-40],
        changed("xl/worksheets/sheet1.xml", "<worksheet>"),
        changed("xl/workbook.xml", "<workbook/>"),
        changed("xl/_rels/workbook.xml.rels", "<Relationships/>"),
        changed("xl/worksheets/sheet1.xml", "<w/>", zipfile.ZIP_LZMA),
        sheet('<c r="A1" t="s"><v>5</v></c>'),
        sheet('<c r="../../etc"><v>5</v></c>'),
        sheet("<c><v>5</v></c>"),
        b"".join(bytes([byte ^ 0x55]) for byte in write_workbook(ROWS)),
    ],
)
def test_anything_else_is_an_error(content: bytes) -> None:
    with pytest.raises(SpreadsheetError):
        read_workbook(content)


def test_too_many_parts_sheets_and_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheet, "MAX_CELLS", 2)
    with pytest.raises(SpreadsheetError, match="more than 2 cells"):
        read_workbook(write_workbook(ROWS))
    monkeypatch.setattr(spreadsheet, "MAX_SHEETS", 0)
    with pytest.raises(SpreadsheetError, match="1 sheets"):
        read_workbook(write_workbook(ROWS))
    monkeypatch.setattr(spreadsheet, "MAX_PARTS", 3)
    with pytest.raises(SpreadsheetError, match="more than 3 parts"):
        read_workbook(write_workbook(ROWS))
