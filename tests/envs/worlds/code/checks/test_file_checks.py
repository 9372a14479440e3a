"""Checks of files on the host find every fault, and no file of an agent makes them fail."""

import pytest
from turnwise.envs.worlds.code.checks.file_checks import MAX_PARSED_BYTES, ConfigEquals, ProgramsEqual
from turnwise.sandbox import Entry, Kind, Tree

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
        ("ini", b"# moved\r\n[one]\r\nport=2\r\nhost: x"),
        ("env", b"# moved\n \t\nONE_LOG=info\nONE_PORT=2"),
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
        ("ini", b"[one]\rport = 1\r[one]\nhost = x\nport = 2\n"),
        ("ini", b"[one]\nhost = x\nport = 2\n\x00"),
        ("env", b"ONE_PORT=2\r\nONE_LOG=info\r\n"),
        ("env", b"ONE_PORT = 2\nONE_LOG=info"),
        ("env", b"ONE_PORT= 2\nONE_LOG=info"),
        ("env", b"ONE_PORT =2\nONE_LOG=info"),
        ("env", b" ONE_PORT=2\nONE_LOG=info"),
        ("env", b"ONE_PORT=2 \nONE_LOG=info"),
        ("env", b"ONE_PORT=2\nONE_LOG=info\n # TWO=3"),
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


PROGRAM = b"import sys\n\n\ndef new_name(value):\n    return [value]\n"
SAME = ProgramsEqual((("a.py", PROGRAM), ("sub/b.py", b"x = 1\n")), without="old_name")


def programs(content: bytes, **more: bytes) -> dict[str, bytes]:
    return {"a.py": content, "sub/b.py": b"x = 1\n", **more}


@pytest.mark.parametrize(
    "content",
    [
        PROGRAM,
        PROGRAM.replace(b"    ", b"\t"),
        PROGRAM.replace(b"\n", b"\r\n"),
        b"# a comment\n" + PROGRAM + b"\n\n",
        PROGRAM.rstrip(),
        PROGRAM.replace(b"[value]", b"[\n        value  # \xc3\xa9\n    ]"),
    ],
)
def test_layout_and_comments_of_programs_do_not_count(content: bytes) -> None:
    assert SAME.passes(programs(content))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        PROGRAM.replace(b"new", b"old"),
        PROGRAM + b"# old_name\n",
        PROGRAM + b'globals()["old" "_name"] = new_name\n',
        PROGRAM + b"setattr(sys.modules[__name__], 'eman_dlo'[::-1], new_name)\n",
        PROGRAM + "ｏld_name = new_name\n".encode(),
        PROGRAM + b"def __getattr__(name): return new_name\n",
        PROGRAM + b"pass\n",
        PROGRAM.replace(b"return [value]", b"return ([value])"),
        PROGRAM.replace(b"import sys\n", b"import os\n"),
        PROGRAM.replace(b"import sys\n", b'"""import sys"""\n'),
        b"# coding: utf-7\n" + PROGRAM,
        b"# coding: unicode_escape\n" + PROGRAM,
        b"#!/bin/sh\r# coding: rot13\r" + PROGRAM,
        PROGRAM + b"# hidden\rold_name = new_name\n",
        PROGRAM + b"# hidden\x0cold = new_name\n",
        PROGRAM + b"\x00",
        PROGRAM + b"\xff",
        PROGRAM + b"#" * MAX_PARSED_BYTES,
        b"(" * MAX_PARSED_BYTES,
        b"  x = 1\n x = 2\n",
    ],
)
def test_every_other_program_fails(content: bytes) -> None:
    assert not SAME.passes(programs(content))


def test_other_files_than_the_expected_ones_fail() -> None:
    assert not SAME.passes({"a.py": PROGRAM})
    for path in ("c.py", "a.src", "a/__init__.py", "notes.md", "sub/b.py.bak"):
        assert not SAME.passes({**programs(PROGRAM), path: b""})


OTHER = {
    "old.py": Entry(Kind.LINK, b"a.py"),
    "old": Entry(Kind.LINK, b"nowhere"),
    "pipe.py": Entry(Kind.LOST, b"a named pipe"),
    "closed": Entry(Kind.LOST, b"permission denied"),
}


@pytest.mark.parametrize("path", OTHER)
def test_what_is_not_a_file_fails_too(path: str) -> None:
    tree = Tree.of(programs(PROGRAM))
    assert SAME.passes(Tree({**tree.entries, "sub": Entry(Kind.FOLDER), "empty": Entry(Kind.FOLDER)}))
    assert not SAME.passes(Tree({**tree.entries, path: OTHER[path]}))
    files = Tree.of(config())
    assert CHECK.passes(Tree({**files.entries, path: OTHER[path], "config": Entry(Kind.FOLDER)}))
    assert not CHECK.passes(Tree({**files.entries, f"config/{path}": OTHER[path]}))


@pytest.mark.parametrize("kind", [Kind.LINK, Kind.LOST, Kind.FOLDER])
def test_an_expected_path_must_be_a_file(kind: Kind) -> None:
    tree = Tree.of(programs(PROGRAM))
    assert not SAME.passes(Tree({**tree.entries, "sub/b.py": Entry(kind, b"../a.py")}))
