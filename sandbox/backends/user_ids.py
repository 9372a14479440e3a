"""Uids of sandboxes: every live sandbox of this machine has its own, because the kernel counts many limits per uid.

POSIX queues, inotify instances, pending signals and pipe pages are limited per uid on the whole machine. The two
backends draw from disjoint ranges, and each detects that another live sandbox has drawn the same uids.
"""

import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from ..guest.processes import USERS


@dataclass(frozen=True, slots=True)
class UidRange:
    """Blocks of ``width`` successive uids, one block per sandbox."""

    first: int
    blocks: int
    width: int

    def draws(self) -> Iterator[int]:
        """Yield the first uid of random blocks, endlessly."""
        while True:
            yield self.first + self.width * secrets.randbelow(self.blocks)


CONTAINER_UIDS = UidRange(1_900_000_000, 30_000_000, USERS)
"""Far from accounts and from usual ranges of sub-uids."""
REMAPPED_CONTAINER_UIDS = UidRange(10_000, 12_000, USERS)
"""For an engine with a user namespace, which usually maps 65,536 uids."""
LOCAL_UIDS = UidRange(2_020_000_000, 120_000_000, 1)


class UidLock:
    """A uid that no other process of this network namespace locks at the same time, until ``release``.

    The lock is the name of an abstract unix socket, which the kernel frees when its process dies.
    """

    def __init__(self, uids: UidRange = LOCAL_UIDS) -> None:
        """Lock a random uid of the range; waits for nothing."""
        for uid in uids.draws():
            lock = socket.socket(socket.AF_UNIX)
            try:
                lock.bind(f"\0turnwise-uid-{uid}")
            except OSError:
                lock.close()
                continue
            self.uid, self._lock = uid, lock
            break

    def release(self) -> None:
        """Free the uid; further calls do nothing."""
        self._lock.close()
