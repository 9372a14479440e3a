"""The program of the local backend decides as the profile says."""

import json
import struct
import subprocess
import sys

import pytest
from turnwise.sandbox.backends import seccomp
from turnwise.sandbox.backends.bubblewrap import BubblewrapBackend
from turnwise.sandbox.backends.seccomp import compile_profile, profile
from turnwise.sandbox.errors import NoEngine

FILTERED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
program = sys.stdin.buffer.read()
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
one = Program(len(program) // 8, program)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(one), 0, 0) == 0
def tried(call):
    return 0 if call() >= 0 else ctypes.get_errno()
limits = (ctypes.c_ulong * 2)()
print(*map(tried, (
    lambda: libc.socket(1, 1, 0),
    lambda: libc.socket(2, 1, 0),
    lambda: libc.socket(16, 3, 0),
    lambda: libc.socket(40, 1, 0),
    lambda: libc.unshare(0x10000000),
    lambda: libc.personality(0x1234),
    lambda: libc.syncfs(-1),
    lambda: libc.prlimit(0, 7, None, limits),
    lambda: libc.prlimit(os.getppid(), 7, None, limits),
)))
"""


@pytest.mark.parametrize(("shared_user", "last"), [(True, 1), (False, 0)])
def test_a_process_under_the_program_gets_the_results_of_the_profile(shared_user: bool, last: int) -> None:
    program = compile_profile(profile(shared_user=shared_user))
    done = subprocess.run([sys.executable, "-c", FILTERED], input=program, capture_output=True, check=True)
    assert list(map(int, done.stdout.split())) == [0, 0, 97, 1, 1, 1, 0, 0, last]


def test_the_program_has_whole_instructions_and_ignores_unknown_calls() -> None:
    content = json.loads(profile())
    content["syscalls"][0]["names"].append("call_of_the_future")
    assert len(compile_profile(json.dumps(content))) % struct.calcsize("HBBI") == 0


def test_a_missing_library_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "LIBRARY", "libseccomp.so.0")
    compile_profile.cache_clear()
    missing = {one.name: one.detail for one in BubblewrapBackend.prerequisites() if not one.found}
    assert missing == {"libseccomp": "apt-get install libseccomp2"}
    with pytest.raises(NoEngine, match="local sandboxes need libseccomp: apt-get install libseccomp2"):
        BubblewrapBackend()
