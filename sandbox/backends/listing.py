"""One sandbox as ``turnwise sandbox list`` shows it: whose it is, until when, and why it is dead where it is."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from .ownership import EXPIRES, HOST, PID, RUN, this_host


def owned(found: Mapping[str, Any]) -> dict[str, str]:
    """The row of a sandbox that ``Backend.listed`` gave; what its labels do not tell is empty."""
    labels = found["labels"]
    where = "" if labels.get(HOST) == this_host() else " elsewhere"
    try:
        expires = datetime.fromtimestamp(float(labels[EXPIRES]), UTC).isoformat(timespec="seconds")
    except (KeyError, ValueError, OverflowError, OSError):
        expires = ""
    return {
        "id": found["id"],
        "status": found["status"],
        "image": found["image"],
        "run": labels.get(RUN, ""),
        "owner": f"process {labels[PID]}{where}" if labels.get(PID) else "",
        "expires": expires,
        "dead": found["dead"],
    }
