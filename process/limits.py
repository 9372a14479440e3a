"""Limits of this process (``setrlimit``) that code of an environment lowers: they are raised again after its call.

Every part of the process has them in common: a limit on the size of files stops the store, one on open files the
evaluation, one on processor time ends the process.
"""

import contextlib
import logging
import resource
from collections import Counter
from time import monotonic

LOG = logging.getLogger(__name__)

LOWERED = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")
"""The limits that may stop turnwise; a call of an environment takes microseconds, so the others are not read."""
_NUMBERS = tuple(getattr(resource, name) for name in LOWERED)
Limits = tuple[tuple[int, int], ...]
"""The soft and the hard value of each limit."""
lowered: Counter[str] = Counter()
"""How often code of an environment has lowered each limit."""
lowered_at: dict[str, float] = {}
"""When it did so for the last time, by the monotonic clock."""
RECENT_S = 10.0
"""Seconds for which a lowered limit may explain an error of another thread."""


def limits() -> Limits:
    """Return the present limits."""
    return tuple(map(resource.getrlimit, _NUMBERS))


START: Limits = limits()
"""The limits when this module was imported, before any code of an environment ran."""


def raise_again(before: Limits) -> str:
    """Undo what lowered a limit since ``before``; return the limits that stay low, as text.

    A lowered hard limit stays, except for a privileged user.
    """
    now = limits()
    if now == before:
        return ""
    kept = []
    for name, number, old, new in zip(LOWERED, _NUMBERS, before, now, strict=True):
        if not any(_is_lower(*pair) for pair in zip(new, old, strict=True)):
            continue
        lowered[name] += 1
        lowered_at[name] = monotonic()
        if lowered[name] == 1:
            LOG.warning(
                "code of an environment lowered a limit of its process: `envs check` finds the environment; set "
                "limits in a process of the environment",
                extra={"limit": name, "value": new[0]},
            )
        soft, hard = (max(pair, key=_order) for pair in zip(new, old, strict=True))
        try:
            resource.setrlimit(number, (soft, hard))
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, (min(soft, new[1], key=_order), new[1]))
            kept.append(f"`{name}` to {new[1]}")
    return ", ".join(kept)


def lowered_limits() -> str:
    """Return the limits that code of an environment lowers now, or lowered in the last ``RECENT_S`` seconds, as a
    clause of a message; empty for none."""
    found = {name for name, new, old in zip(LOWERED, limits(), START, strict=True) if _is_lower(new[0], old[0])}
    found |= {name for name, at in list(lowered_at.items()) if monotonic() - at < RECENT_S}
    if not found:
        return ""
    names = ", ".join(f"`{name}`" for name in sorted(found))
    return f"code of an environment lowered limits of this process ({names}); `turnwise envs check` finds it"


def file_limit() -> str:
    """Return the limit on the size of files of this process, as a clause of a message; empty for none."""
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if size == resource.RLIM_INFINITY:
        return ""
    return f"a file may have {size} bytes (`RLIMIT_FSIZE`): raise the limit (`ulimit -f unlimited`) and run it again"


def _is_lower(new: int, old: int) -> bool:
    return _order(new) < _order(old)


def _order(value: int) -> float:
    return float("inf") if value == resource.RLIM_INFINITY else value
