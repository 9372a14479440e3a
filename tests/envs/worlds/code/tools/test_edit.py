"""``edit`` replaces whole lines that occur once, and keeps the line ends of the file."""

from codecs import BOM_UTF8

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.code.tools.edit import NotApplied, edited


@pytest.mark.parametrize(
    ("content", "old", "new", "wanted"),
    [
        (b"a\nb\nc\n", b"b\n", b"x\ny\n", b"a\nx\ny\nc\n"),
        (b"a\nb", b"b\n", b"x\n", b"a\nx"),
        (b"a\nb", b"a\nb\n", b"", b""),
        (b"limit = 1\nit = 1\n", b"it = 1\n", b"it = 2\n", b"limit = 1\nit = 2\n"),
        (b"a\r\nb\r\nc\r\n", b"b\n", b"x\ny\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb", b"b\n", b"x\n", b"a\r\nx"),
        (b"a\r\nb\r\n", b"a\nb\n", b"a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", b"a\nb\nc\n", b"a\nx\nc\n", b"a\r\nx\nc\r\n"),
        (b"a\r\nb\nc\r\n", b"a\nb\nc\n", b"a\nb\nx\nc\n", b"a\r\nb\nx\r\nc\r\n"),
        (b"a\nb\n", b"a\nb\n", b"a\nx\nb\n", b"a\nx\nb\n"),
        (b"a\r\na\n", b"a\r\n", b"x\r\n", b"x\r\na\n"),
        (b"a\r\n", b"a\r\n", b"x\n", b"x\n"),
        (b"a\rb\nc\n", b"c\n", b"x\n", b"a\rb\nx\n"),
        ("a\u2028b\nc\x0b\n\x85\n".encode(), b"c\x0b\n", b"x\n", "a\u2028b\nx\n\x85\n".encode()),
        (b"\xff\nb\n", b"b\n", b"x\n", b"\xff\nx\n"),
        (b"a\nb\r", b"a\n", b"x\n", b"x\nb\r"),
        (b"a\r\nb\r", b"a\n", b"x\n", b"x\r\nb\r"),
        (b"a\nb\r", b"b\n", b"x\n", b"a\nx\r"),
        (b"a\nb\r", b"b\r", b"x\r", b"a\nx\r"),
        (b"a\nb\r\r", b"a\n", b"x\n", b"x\nb\r\r"),
        (b"a\r\nb", b"b\n", b"", b"a"),
        (BOM_UTF8 + b"a\r\nb\r\n", b"a\n", b"x\n", BOM_UTF8 + b"x\r\nb\r\n"),
        (BOM_UTF8 + b"a\nb\n", BOM_UTF8 + b"a\n", BOM_UTF8 + b"x\n", BOM_UTF8 + b"x\nb\n"),
        (BOM_UTF8 + b"a\nb\n", b"b\n", b"x\n", BOM_UTF8 + b"a\nx\n"),
    ],
)
def test_whole_lines_are_replaced(content: bytes, old: bytes, new: bytes, wanted: bytes) -> None:
    assert edited(content, ((old, new),)) == wanted


@pytest.mark.parametrize(
    ("content", "old", "why"),
    [
        (b"limit = 1\n", b"it = 1\n", "a part of a line"),
        (b"limit = 1\n", b"limit\n", "a part of a line"),
        (b"a\na\na\n", b"a\na\n", "more than once"),
        (b"a\r\na\n", b"a\n", "more than once"),
        (b"a\rb\n", b"b\n", "a part of a line"),
        (b"\xff\n", "\ufffd\n".encode(), "not UTF-8"),
        (b"a\n", b"a\r\n", "its lines end with LF there"),
        (b"a\n", b"b\r\n", "does not occur as whole lines$"),
        (b"", b"a\n", "does not occur"),
    ],
)
def test_other_text_is_refused(content: bytes, old: bytes, why: str) -> None:
    with pytest.raises(NotApplied, match=why):
        edited(content, ((old, b"x\n"),))


LINE = st.sampled_from([b"a", b"b", b"aa", b"", b"c d"])
END = st.sampled_from([b"\n", b"\r\n"])


@given(st.lists(st.tuples(LINE, END), min_size=1, max_size=12), st.data())
def test_all_other_bytes_stay(file: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(file) - 1))
    last = data.draw(st.integers(first, len(file) - 1))
    new = data.draw(st.lists(LINE, max_size=4))
    content = b"".join(line + end for line, end in file)
    before = b"".join(line + end for line, end in file[:first])
    after = b"".join(line + end for line, end in file[last + 1 :])
    old = b"".join(line + b"\n" for line, _ in file[first : last + 1])
    lines = [line for line, _ in file]
    count = sum(lines[at : at + last - first + 1] == lines[first : last + 1] for at in range(len(lines)))
    if count > 1:
        with pytest.raises(NotApplied, match="more than once"):
            edited(content, ((old, b""),))
        return
    result = edited(content, ((old, b"".join(line + b"\n" for line in new)),))
    middle = result[len(before) : len(result) - len(after)]
    assert result == before + middle + after
    assert middle.replace(b"\r\n", b"\n") == b"".join(line + b"\n" for line in new)
    if len({end for _, end in file[first : last + 1]}) == 1 and new:
        assert middle == b"".join(line + file[first][1] for line in new)
