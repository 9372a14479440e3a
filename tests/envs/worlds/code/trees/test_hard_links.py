"""The oracle makes each tree, whatever the first names of its files and the modes of its folders are."""

import pytest
from turnwise.envs.worlds.code.fresh_sandbox import FILE_TIMEOUT_S, open_sandbox
from turnwise.envs.worlds.code.oracle import next_action
from turnwise.envs.worlds.code.task import Change, changed
from turnwise.envs.worlds.code.tools.actions import parse
from turnwise.envs.worlds.code.tools.execute import act
from turnwise.sandbox import Entry, Kind, SandboxSpec, Tree


def other(name: str, content: bytes = b"1\n") -> Entry:
    """Return another name of the file at a path."""
    return Entry(Kind.FILE, content, 0o644, same_as=name)


READ_ONLY = Entry(Kind.FOLDER, b"", 0o555)
LOCKED = Tree({"d": READ_ONLY, "d/y": Entry.file(b"1\n"), "d/e": READ_ONLY, "d/e/z": Entry.file(b"1\n")})
ONE, TWO = Entry.file(b"1\n"), Entry.file(b"2\n")
PAIR = Tree({"a": ONE, "z": other("a")})
CHANGES: dict[str, tuple[Tree, Change]] = {
    "first name below a folder": (
        Tree({}),
        Tree({"pkg": Entry(Kind.FOLDER, b"", 0o755), "pkg/x": ONE, "a": other("pkg/x")}),
    ),
    "first name that comes later": (Tree({}), Tree({"z": ONE, "b": other("z"), "c": other("z")})),
    "another name of an initial file": (Tree({"z": ONE}), Tree({"b": other("z")})),
    "one of two names changed": (PAIR, {"z": b"2\n"}),
    "first of two names changed": (PAIR, {"a": b"2\n"}),
    "two names become two files": (PAIR, Tree({"a": ONE, "z": ONE})),
    "another pair": (Tree({"a": ONE, "b": other("a"), "c": other("a")}), Tree({"a": ONE, "c": ONE, "b": other("c")})),
    "a file becomes a name": (Tree({"a": ONE, "b": TWO}), Tree({"b": other("a")})),
    "a new read-only folder": (Tree({}), LOCKED),
    "a file in a read-only folder": (LOCKED, {"d/x": b"2\n", "d/e/f/g": b"2\n"}),
    "a changed file in a read-only folder": (LOCKED, {"d/y": b"2\n"}),
    "a removed file in a read-only folder": (LOCKED, {"d/e/z": None}),
    "a link in a read-only folder": (LOCKED, Tree({"d/y": Entry(Kind.LINK, b"e"), "d/l": Entry(Kind.LINK, b"y")})),
    "a read-only folder becomes a file": (LOCKED, Tree({"d/e": TWO})),
    "a folder becomes read-only": (Tree({"d": Entry(Kind.FOLDER, b"", 0o755), "d/y": ONE}), LOCKED),
    "a link becomes a folder": (Tree({"d": Entry(Kind.LINK, b"a"), "a": ONE}), Tree({"d/x": TWO})),
}


def other_names(tree: Tree) -> int:
    """Return how many entries are another name of a file."""
    return sum(one.same_as in tree and tree.entries[one.same_as].equals(one) for one in tree.entries.values())


@pytest.mark.parametrize("case", CHANGES)
def test_the_oracle_ends_with_the_files_of_the_solution(local: str, case: str) -> None:
    workspace, solution = CHANGES[case]
    wanted = changed(workspace, solution)
    with open_sandbox(SandboxSpec(trusted=True), workspace) as box:
        for _ in range(20):
            current = box.read_tree(".", timeout_s=FILE_TIMEOUT_S)
            action = next_action(current, workspace, solution)
            if action == "submit":
                break
            act(box, parse(action), 10.0, 1000)
        assert action == "submit"
    assert dict(current) == dict(wanted)
    assert other_names(current) == other_names(wanted)
    modes = {path: (entry.kind, entry.mode & 0o700) for path, entry in wanted.entries.items()}
    assert {path: (current.entries[path].kind, current.entries[path].mode & 0o700) for path in modes} == modes
