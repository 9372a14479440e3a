"""Trees as the guest agent writes them, here in a folder of the test."""

import time
from pathlib import Path

from turnwise.sandbox import Entry, Kind, Tree
from turnwise.sandbox.guest.trees import read_whole, write_whole
from turnwise.sandbox.transport.answers import decode_tree, encode_tree

TIMES = {"epoch": 0, "before": -5_000_000_000, "later": 10**18 + 1}


def test_every_modification_time_is_kept(tmp_path: Path) -> None:
    entries = {name: Entry(Kind.FILE, b"x", 0o644, mtime_ns=when) for name, when in TIMES.items()}
    folder = Entry(Kind.FOLDER, b"", 0o755, mtime_ns=0)
    until, before = time.monotonic() + 60, time.time_ns() - 10**9
    tree = Tree({**entries, "folder": folder, "now": Entry.file(b"x")})
    write_whole(str(tmp_path), *encode_tree(tree), frozenset(), until)
    listed, data = read_whole(str(tmp_path), 1 << 20, frozenset(), until)
    found = decode_tree({"entries": [list(each) for each in listed]}, data).entries
    assert {name: found[name].mtime_ns for name in (*TIMES, "folder")} == {**TIMES, "folder": 0}
    assert (found["now"].mtime_ns or 0) >= before
