"""The meaning of a response that is not a success: outgrown context, a filter, a limit on requests. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTGROWN_CODES = re.compile(
    r"context_length_exceeded|context_window_exceeded|ContextWindowExceeded|exceed_context_size|string_above_max_length"
    r"|request_too_large",
    re.IGNORECASE,
)
"""Codes and types of OpenAI, LiteLLM, llama.cpp and Anthropic."""
OUTGROWN_WORDS = re.compile(
    r"context.{0,40}(length|size|window|limit|exceed|overflow|shift)"
    r"|(maximum|available|exceed|overflow|longer than).{0,60}context"
    r"|(prompt|input|tokens?).{0,80}(exceed|longer than|greater than|too long|too large|must have less|must be <=)"
    r"|too many.{0,20}tokens|too large for model|range of input length|max_model_len|session_len"
    r"|maximum.{0,30}(prompt|input|sequence|allowed|model|number of).{0,20}(length|tokens)"
    r"|(reduce|shorten).{0,40}(length|prompt|input|messages)"
    r"|max_(completion_)?tokens.{0,20}must be (at least|greater than)",
    re.IGNORECASE | re.DOTALL,
)
"""Wordings of vLLM, OpenAI, llama.cpp, SGLang, TGI, TensorRT-LLM, LM Studio, Mistral, Gemini, Anthropic and xAI."""
OUTGROWN_STATUSES = frozenset({400, 413, 422, 500})
"""Statuses with which servers report it; 500 is that of old versions of llama.cpp."""
OUTGROWN_QUOTA = re.compile(r"request too large|must be reduced in order to run", re.IGNORECASE)
"""One request exceeds the limit on tokens per minute (OpenAI, Groq; status 429): it can never succeed."""
FILTERED = re.compile(r"content[_ ](filter|policy|management)|safety|moderation", re.IGNORECASE)
EXHAUSTED = re.compile(r"insufficient_quota|billing|exceeded your current quota|credit|payment", re.IGNORECASE)
"""A limit that no wait within a turn lifts."""
RETRIED_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 529})
"""Statuses after which the same request may succeed: too many requests, a restart, an overloaded server."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A response that is not a success: its status, and the message, the code and the type in its body."""

    status: int
    message: str = ""
    code: str = ""
    kind: str = ""

    @property
    def outgrown(self) -> bool:
        """Whether the conversation no longer fits the model's context."""
        if self.status == 413 or OUTGROWN_CODES.search(f"{self.code} {self.kind}"):
            return True
        if self.status == 429:
            return bool(OUTGROWN_QUOTA.search(self.message))
        return self.status in OUTGROWN_STATUSES and bool(OUTGROWN_WORDS.search(self.message))

    @property
    def filtered(self) -> bool:
        """Whether a filter of the server rejected the conversation."""
        return self.status in (400, 403, 422) and bool(FILTERED.search(f"{self.code} {self.kind} {self.message}"))

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed after a wait."""
        words = f"{self.code} {self.kind} {self.message}"
        return self.status in RETRIED_STATUSES and not EXHAUSTED.search(words)

    def __str__(self) -> str:
        return f"status {self.status}" + (f": {self.message}" if self.message else "")


def requested_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait; None if it names none, or none that can be read.

    ``Retry-After-Ms`` counts before ``Retry-After``, which is a number of seconds or an HTTP date.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    given = headers.get("retry-after", "")
    if (seconds := _number(given)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time())
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def _number(text: str | None) -> float | None:
    """Return a finite number of at least 0; None for any other text."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
