"""A file that a user named is read whole and within its limit, or refused in one line, without a wait."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from turnwise.base.user_files import UnreadableFile, open_regular_file, read_regular_file, read_regular_text


def test_a_regular_file_is_read_through_links_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_regular_file(link, 5) == b"12345"
    assert read_regular_file(str(file), 5) == b"12345"
    with pytest.raises(UnreadableFile, match="it has more than 4 bytes, which are the limit"):
        read_regular_file(file, 4)
    with open_regular_file(file) as opened:
        assert (opened.read(), os.get_inheritable(opened.fileno())) == (b"12345", False)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xef\xbb\xbfa\r\nb\n", "a\r\nb\n"), ("ünï\x00".encode(), "ünï\x00"), (b"", "")],
)
def test_text_is_utf8_without_a_mark(tmp_path: Path, content: bytes, text: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert read_regular_text(file, 99) == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("ü".encode("latin-1"), r"is not UTF-8 \(byte 0 is invalid\): save the file as UTF-8"),
        ("a".encode("utf-16"), "byte 0 is invalid"),
    ],
)
def test_other_encodings_are_named(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UnreadableFile, match=reason):
        read_regular_text(file, 99)


def folder(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def unix_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (folder, "Is a directory"),
        (fifo, "it is not a regular file"),
        (link_to_a_fifo, "it is not a regular file"),
        (unix_socket, "No such device or address"),
        (link_to("/dev/zero"), "it is not a regular file"),
        (link_to("/proc/self/maps"), "it has more than 99 bytes"),
        (link_to("/proc/self/mem"), "Input/output error"),
        (loop, "Too many levels of symbolic links"),
        (dangling, "does not exist"),
        (lambda path: None, "does not exist"),
    ],
)
def test_everything_else_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    path = tmp_path / "it"
    make(path)
    with pytest.raises(UnreadableFile, match=reason) as refused:
        read_regular_file(path, 99)
    assert f"`{path}`" in str(refused.value)


@pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "x" * 300, "a\nb", "file/below"])
def test_a_path_that_no_file_can_have_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnreadableFile) as refused:
        read_regular_text(tmp_path / name, 99)
    assert len(str(refused.value).splitlines()) == 1
    str(refused.value).encode()
