"""Whether a file or folder that was opened is still at its path: nothing is made in the place of one that is gone."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import StoreGone


@dataclass(frozen=True, slots=True)
class Place:
    """A path with the identity of the file that was there."""

    path: Path
    inode: tuple[int, int]
    """Device and number of the file."""

    @classmethod
    def of(cls, path: Path) -> "Place":
        """Return the place of an existing file. Raises OSError."""
        return cls(path, _inode(path))

    def check(self, what: str) -> None:
        """Check that the same file is there.

        Args:
            what: the file, for a message, such as ``the store``.

        Raises:
            StoreGone: the file is missing, or another one is there.
        """
        try:
            found = _inode(self.path)
        except OSError as error:
            raise StoreGone(
                f"{what} `{self.path}` is gone ({error.strerror}): it was moved, deleted or unmounted while it was in "
                "use; bring it back to its place, or name its new one, and run the same command again"
            ) from error
        if found != self.inode:
            raise StoreGone(
                f"{what} `{self.path}` was replaced while it was in use: end every process that uses it, bring the "
                "right one back to its place, and run the same command again"
            )


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
