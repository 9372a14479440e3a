"""Files as the guest agent writes them, here in a folder of the test."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest
from turnwise.sandbox.guest.files import write_tree


def test_a_program_is_executable_before_its_content_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"old")
    program.chmod(0o644)

    def full(end: int, content: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    until = time.monotonic() + 60
    with monkeypatch.context() as patches:
        patches.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            write_tree([(str(program), 3)], b"new", 0o755, frozenset(), until)
    assert (stat.S_IMODE(program.stat().st_mode), program.read_bytes()) == (0o755, b"")
    write_tree([(str(program), 3)], b"new", 0o644, frozenset(), until)
    assert (stat.S_IMODE(program.stat().st_mode), program.read_bytes()) == (0o755, b"new")
