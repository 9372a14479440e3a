"""Two live sandboxes of a machine never have the same uid."""

import secrets
import subprocess
import sys

from turnwise.sandbox.backends.user_ids import CONTAINER_UIDS, LOCAL_UIDS, UidLock, UidRange

HOLD = """
import sys
from turnwise.sandbox.backends.user_ids import UidLock, UidRange
lock = UidLock(UidRange(int(sys.argv[1]), 2, 1))
print(lock.uid, flush=True)
sys.stdin.read()
"""


def test_processes_draw_different_uids_and_a_dead_process_frees_its_own() -> None:
    first = 1_880_000_000 + secrets.randbelow(10**6)
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(first)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    taken = int(other.stdout.readline())
    two = UidRange(first, 2, 1)
    own = UidLock(two)
    assert {taken, own.uid} == {first, first + 1}
    other.kill()
    other.communicate()
    again = UidLock(two)
    assert again.uid == taken
    own.release()
    again.release()


def test_ranges_of_the_backends_are_disjoint_and_fit_into_a_signed_number() -> None:
    containers = range(CONTAINER_UIDS.first, CONTAINER_UIDS.first + CONTAINER_UIDS.blocks * CONTAINER_UIDS.width)
    assert containers.stop <= LOCAL_UIDS.first
    assert LOCAL_UIDS.first + LOCAL_UIDS.blocks * LOCAL_UIDS.width < 2**31
