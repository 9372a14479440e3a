"""One sandbox in the list of a backend: its owner, its expiry, and why it may be removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from .ownership import EXPIRES, HOST, PID, RUN, this_host


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """State and owner of one sandbox, read from its labels; a field whose label is missing or invalid is empty."""

    id: str
    status: str
    image: str
    run: str
    owner: str
    """``process PID``, followed by ``elsewhere`` for a process of another machine or pid namespace."""
    expires: str
    """End of its time to live, as an ISO timestamp in UTC."""
    reap_reason: str
    """Why the sandbox may be removed; empty unless that is certain."""


def describe(name: str, status: str, image: str, labels: Mapping[str, str], reap_reason: str) -> SandboxInfo:
    """Return the info of a sandbox with these labels."""
    place = "" if labels.get(HOST) == this_host() else " elsewhere"
    try:
        expires = datetime.fromtimestamp(float(labels[EXPIRES]), UTC).isoformat(timespec="seconds")
    except (KeyError, ValueError, OverflowError, OSError):
        expires = ""
    return SandboxInfo(
        id=name,
        status=status,
        image=image,
        run=labels.get(RUN, ""),
        owner=f"process {labels[PID]}{place}" if labels.get(PID) else "",
        expires=expires,
        reap_reason=reap_reason,
    )
