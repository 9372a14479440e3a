"""A file of any size is shown in bounded memory, with the right line numbers."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.code.tools.numbered_lines import line_count, numbered


@given(st.lists(st.binary(max_size=8).filter(lambda line: b"\n" not in line and b"\r" not in line)), st.booleans())
def test_lines_are_numbered_as_they_are(lines: list[bytes], ended: bool) -> None:
    content = b"".join(line + b"\n" for line in lines)
    content = content if ended else content.removesuffix(b"\n")
    count = line_count(content)
    shown = content.decode(errors="replace").removesuffix("\n").split("\n") if content else []
    assert count == len(shown)
    wanted = [f"{number:5} {line}" for number, line in enumerate(shown, 1)]
    assert numbered(content, 1, count, 10_000) == "\n".join(wanted)
    assert numbered(content, 2, count, 10_000) == "\n".join(wanted[1:])


@pytest.mark.parametrize("line", [b"\n", b"x" * 100 + b"\n", "é".encode() * 30_000 + b"\n"])
def test_the_middle_of_a_long_file_is_left_out(line: bytes) -> None:
    content = line * (3_000_000 // len(line))
    count = line_count(content)
    text = numbered(content, 3, count, 4000)
    assert len(text) <= 4000
    assert text.startswith("    3")
    assert f"\n{count:5} " in text
    assert "left out" in text


def test_a_long_single_line_shows_its_beginning_and_its_end() -> None:
    text = numbered(b"a" + b"-" * 100_000 + b"z", 1, 1, 4000)
    assert text.startswith("    1 a")
    assert "a part of a line left out" in text
    assert len(text) <= 4000


def test_memory_does_not_grow_with_the_number_of_lines() -> None:
    content = b"\n" * (15 << 20)
    tracemalloc.start()
    numbered(content, 1, line_count(content), 4000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(content), "one object per line took 1.4 GiB"
