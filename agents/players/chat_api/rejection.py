"""The meaning of a response that is not a success: outgrown context, a filter, a limit on requests. Pure."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from .response import shown

if TYPE_CHECKING:
    from collections.abc import Mapping


def _read_words() -> dict[str, re.Pattern[str]]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    texts = {name: "|".join(parts) for name, parts in tables["words"].items()}
    for name, words in reversed(tables["names"].items()):
        texts = {key: text.replace(f"%{name}%", words) for key, text in texts.items()}
    return {name: re.compile(text, re.IGNORECASE | re.DOTALL) for name, text in texts.items()}


WORDS = _read_words()
"""The words by which a rejection is classified, by their key in ``rejection.toml``."""
OUTGROWN_STATUSES = frozenset({200, 400, 413, 422})
"""Statuses with which servers report it; 200 is that of a router that puts the error into the body."""
FILTERED_STATUSES = frozenset({200, 400, 403, 422})
RETRIED_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 529})
"""Statuses after which the same request may succeed: too many requests, a restart, an overloaded server."""
WAIT = re.compile(
    r"(?:try again|retry)(?:ing)? (?:in|after) "
    r"(?P<wait>(?:\d+(?:\.\d+)? ?(?:hours?|min(?:ute)?s?|sec(?:ond)?s?|ms|[hms])\b ?"
    r"|\d+(?:\.\d+)?(?:h|ms?|s)(?=\d))+)",
    re.IGNORECASE,
)
"""The wait in the words of OpenAI and Groq (``try again in 1m2.5s``), Gemini (``retry in 33.1s``) and Azure."""
SHOWN_MAX_S = 86_400.0
"""Longest wait that an error shows as a number."""
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Rejection:
    """A response that is not a success: its status, the message, the code and the type in its body, and its wait."""

    status: int
    message: str = ""
    code: str = ""
    kind: str = ""
    wait_s: float | None = None
    """Seconds that the response asks to wait; None if it names none."""

    @property
    def outgrown(self) -> bool:
        """Whether the conversation no longer fits the model's context."""
        if self._is_coded("outgrown_codes"):
            return True
        if self.status == 429 or self._is_worded("account_limit"):
            return self.status in (413, 429) and self._is_worded("outgrown_quota")
        if self.status == 413:
            return True
        if self._is_worded("outgrown_plainly"):
            return self.status in OUTGROWN_STATUSES | {404, 500}
        if self.status not in OUTGROWN_STATUSES or self._is_worded("broken"):
            return False
        return self._is_worded("outgrown_words")

    @property
    def filtered(self) -> bool:
        """Whether a filter of the server rejected the conversation."""
        if self.status not in FILTERED_STATUSES:
            return False
        return self._is_coded("filtered") or self._is_worded("filtered_403" if self.status == 403 else "filtered")

    @property
    def exhausted(self) -> bool:
        """Whether a limit of the account is reached that no wait within a turn lifts."""
        if self._is_coded("exhausted_codes"):
            return True
        return self.wait_s is None and self._is_worded("exhausted_words")

    @property
    def outside(self) -> bool:
        """Whether the cause is the account, the key or the state of the server: no conversation causes it."""
        worded = self._is_coded("broken") or self._is_worded("broken") or self._is_worded("account_limit")
        return self.exhausted or worded

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed after a wait."""
        named = any(WORDS["retried_codes"].search(one) for one in (self.code, self.kind))
        return (self.status in RETRIED_STATUSES or named or self._is_worded("retried_words")) and not self.exhausted

    @property
    def of_turns(self) -> bool:
        """Whether the cause may be the turns of the conversation: it is, unless the words name another one.

        A rejection in words that nobody foresaw would otherwise leave out the episodes that a policy loses.
        """
        is_other = self._is_worded("template") or self._is_worded("parameter")
        return self.status in (400, 422) and not is_other and not self.outside

    def _is_coded(self, words: str) -> bool:
        return WORDS[words].search(f"{self.code} {self.kind}") is not None

    def _is_worded(self, words: str) -> bool:
        return WORDS[words].search(self.message) is not None

    def __str__(self) -> str:
        return f"status {self.status}" + (f": {shown(self.message.encode())}" if self.message else "")


def requested_wait_s(headers: Mapping[str, str], message: str = "") -> float | None:
    """Return the seconds that a response asks to wait; None if it names none, or none that can be read.

    ``Retry-After-Ms`` counts before ``Retry-After``, which is a number of seconds or an HTTP date, and both before the
    words of the message.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    if (seconds := _number(given)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time())
    except (ValueError, OverflowError, TypeError, IndexError):
        return _wait_in_words_s(message)


def wait_in_words(seconds: float) -> str:
    """Return a wait as text; a header or a message may ask for any number of seconds."""
    return f"{seconds:.0f} s" if seconds <= SHOWN_MAX_S else "more than a day"


def _wait_in_words_s(message: str) -> float | None:
    """Return the seconds of a wait like ``try again in 1m2.5s``; None if the message names none."""
    if not (found := WAIT.search(message)):
        return None
    parts = re.findall(r"([\d.]+) ?(ms|[hms])", found["wait"].lower())
    return sum(float(number) * UNITS_S[unit] for number, unit in parts)


def _number(text: str | None) -> float | None:
    """Return a finite number of at least 0; None for any other text."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
