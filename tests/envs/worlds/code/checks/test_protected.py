"""A protected pattern protects the files that it means, or is refused by name."""

import pytest
from turnwise.envs.worlds.code.checks.protected import check_protected, is_protected
from turnwise.sandbox import Entry, Kind, Tree

NAMES = (
    "test_a.py",
    "notes.txt",
    "data[1].txt",
    "pkg/test_b.py",
    "pkg/inner/test_c.py",
    "tests/x.py",
    "logs[2]/a",
    "é.txt",
)
TREE = Tree({**{name: Entry.file(b"1") for name in NAMES}, "to_tests": Entry(Kind.LINK, b"tests")})


@pytest.mark.parametrize(
    ("pattern", "protects"),
    [
        ("**/test_*.py", {"test_a.py", "pkg/test_b.py", "pkg/inner/test_c.py"}),
        ("pkg/**/*.py", {"pkg/test_b.py", "pkg/inner/test_c.py"}),
        ("pkg/**/**/test_b.py", {"pkg/test_b.py"}),
        ("*g/**/test*.py", {"pkg/test_b.py", "pkg/inner/test_c.py"}),
        ("pkg/**", {"pkg/test_b.py", "pkg/inner/test_c.py"}),
        ("data[1].txt", {"data[1].txt"}),
        ("logs[2]/*", {"logs[2]/a"}),
        ("[n]otes.txt", {"notes.txt"}),
        ("to_tests", {"to_tests"}),
        ("**", {*TREE.entries}),
        ("later/test_*.py", set()),
    ],
)
def test_a_pattern_protects_what_it_means(pattern: str, protects: set[str]) -> None:
    check_protected([pattern], TREE)
    assert {path for path in TREE.entries if is_protected(path, [pattern])} == protects


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("workspace/notes.txt", "write 'notes.txt'"),
        ("workspace/*", "write '*'"),
        ("workspace/later.py", "write 'later.py'"),
        ("/home/me/tasks/add/workspace/notes.txt", "write 'notes.txt'"),
        (r"tests\x.py", "write 'tests/x.py'"),
        (r"later\x.py", "a backslash"),
        ("tests/*.{py,txt}", "braces"),
        ("test_a.py ", "write 'test_a.py'"),
        ("test_a.py\n", "write 'test_a.py'"),
        ("pkg/ test_b.py", "write 'pkg/test_b.py'"),
        ("later.py\t", "write 'later.py'"),
        ("~/test_a.py", "home folder"),
        ("!notes.txt", "exception"),
        ("../notes.txt", "nor can a submission"),
        ("", "nor can a submission"),
        ("pk?", "write 'pk?/*'"),
        ("pkg/**/", "write 'pkg/**'"),
        ("test_a.py/", "write 'test_a.py'"),
        ("test_a.py, notes.txt", "text of its own"),
        ("Notes.TXT", "write 'notes.txt'"),
        ("e\u0301.txt", "write 'é.txt'"),
        ("to_tests/x.py", "to_tests is not a folder; write 'tests/x.py'"),
    ],
)
def test_a_pattern_that_protects_nothing_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match="matches no file of workspace/") as error:
        check_protected(["notes.txt", pattern], TREE)
    assert str(error.value).startswith(f"protected: {pattern!r} ")
    assert message in str(error.value)


def test_a_folder_of_the_name_workspace_may_be_named() -> None:
    tree = Tree({"workspace/notes.txt": Entry.file(b"1"), "~x": Entry.file(b"2"), "a\\b{c}": Entry.file(b"3")})
    check_protected(["workspace/*", "workspace/later.py", "~x", "a\\b{c}"], tree)
    assert is_protected("a\\b{c}", ["a\\b{c}"])
