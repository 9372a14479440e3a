"""Checks of files on the host find every fault, and no file of an agent makes them fail."""

import time

import pytest
from turnwise.envs.code.checks.file_checks import MAX_NORMALIZED_BYTES, MAX_PARSED_BYTES, ConfigEquals, NameGone

EXPECTED = {
    "a.ini": b"[one]\nhost = x\nport = 2\n",
    "a.json": b'{"services": {"one": {"retries": 3, "port": 2}}}',
    "a.env": b"ONE_PORT=2\nONE_LOG=info\n",
}
CHECK = ConfigEquals("config", tuple(EXPECTED.items()))


def config(**changed: bytes) -> dict[str, bytes]:
    files = {**EXPECTED, **{f"a.{ending}": content for ending, content in changed.items()}}
    return {"show.py": b"", **{f"config/{name}": content for name, content in files.items()}}


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("ini", b"# moved\n[one]\nport=2\nhost: x"),
        ("json", b'{"services":{"one":{"port":2,"retries":3}}}'),
        ("env", b"# moved\n\nONE_LOG=info\n ONE_PORT = 2"),
    ],
)
def test_layout_and_comments_do_not_count(ending: str, content: bytes) -> None:
    assert CHECK.passes(config())
    assert CHECK.passes(config(**{ending: content}))


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("ini", b"[one]\nport = 2\n"),
        ("ini", b"[one]\nhost = y\nport = 2\n"),
        ("ini", b"[DEFAULT]\nx = 1\n[one]\nhost = x\nport = 2\n"),
        ("ini", b"[one]\nhost = x\nport = 2\n[two]\n"),
        ("ini", b"[one]\nhost = x\nport = 1\nport = 2\n"),
        ("ini", b"\xff"),
        ("json", b'{"services": {"one": {"port": 2}}}'),
        ("json", b'{"services": {"one": {"retries": 3, "port": "2"}}}'),
        ("json", b'{"services": {"one": {"retries": 3, "port": 1, "port": 2}}}'),
        ("json", b"[" * MAX_PARSED_BYTES),
        ("json", b"1" * MAX_PARSED_BYTES),
        ("env", b"ONE_PORT=2\n"),
        ("env", b"ONE_PORT=2\nONE_LOG=info\nONE_LOG=info"),
        ("env", b"ONE_PORT=2\nONE_LOG=info\nexport"),
        ("env", b"ONE_PORT=2\nONE_LOG=info\n" + b" " * MAX_PARSED_BYTES),
        ("env", b"ONE_PORT=2\x0bONE_LOG=info"),
        ("env", b"ONE_PORT=2\x85ONE_LOG=info"),
        ("env", "ONE_PORT=\u00a02\nONE_LOG=info".encode()),
        ("env", "\ufeffONE_PORT=2\nONE_LOG=info".encode()),
        ("bak", b""),
    ],
)
def test_every_other_world_fails(ending: str, content: bytes) -> None:
    assert not CHECK.passes(config(**{ending: content}))


def test_a_missing_file_fails() -> None:
    files = config()
    del files["config/a.env"]
    assert not CHECK.passes(files)


@pytest.mark.parametrize(
    "content",
    [
        b"old_name = 1",
        b"# old_name",
        "ｏld_name = 1".encode(),
        "𝐨𝐥𝐝_name = 1".encode(),
        b"\xff",
        b"# coding: utf-7\nx = 1",
        b"#" * 20_000 + b"coding: utf-7\nx = 1",
        b"#!/bin/sh\r# -*- coding: rot13 -*-\rbyq_anzr = 1",
    ],
)
def test_a_kept_name_is_found(content: bytes) -> None:
    assert not NameGone("old_name").passes({"sub/a.py": content})


@pytest.mark.parametrize("content", [b"", b"new_name = 1", "é = 'ｎ'".encode(), b"# -*- coding: UTF-8 -*-\nx = 1"])
def test_an_honest_file_passes(content: bytes) -> None:
    assert NameGone("old_name").passes({"sub/a.py": content, "notes.md": b"\xff"})


def test_large_programs_that_are_not_ascii_fail_in_bounded_time() -> None:
    """The characters of 16 MiB took four seconds to normalize, in which every other thread of the worker waited."""
    content = "".join(map(chr, range(0x10000, 0x50000))).encode()
    began = time.process_time()
    assert not NameGone("old_name").passes({f"{number}.py": content for number in range(16)})
    allowed = b"\n\n" + content[: MAX_NORMALIZED_BYTES // 8]
    assert NameGone("old_name").passes({"a.py": b"x\n" * (8 << 20), "b.py": allowed})
    assert time.process_time() - began < 1


def test_a_name_in_a_file_that_a_program_can_execute_is_found() -> None:
    assert not NameGone("old_name").passes({"sub/a.py": b"exec(open('a.src').read())", "a.src": b"old_name = 1"})
