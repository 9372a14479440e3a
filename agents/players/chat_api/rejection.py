"""The meaning of a response that is not a success: outgrown context, a filter, a limit on requests. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import TYPE_CHECKING

from .response import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTGROWN_CODES = re.compile(
    r"context_length_exceeded|context_window_exceeded|ContextWindowExceeded|exceed_context_size|string_above_max_length"
    r"|request_too_large",
    re.IGNORECASE,
)
"""Codes and types of OpenAI, LiteLLM, llama.cpp and Anthropic."""
CONVERSATION = r"(prompt|inputs?|conversation|messages?|request|history|sequence|text)"
SERVER = r"(model|endpoint|server|engine|backend|deployment)"
LIMIT_OF = rf"({SERVER}|maximum|max|input|prompt|context)([`']?s)?"
TIME = r"(s|sec|min|h|second|minute|hour|day|week|month)s?\b"
OWNER = r"(account|tier|plan|subscription|organi[sz]ation|project|workspace|team|user|key)s?"
ACCOUNT_LIMIT = re.compile(
    rf"\b(per|each|every|tokens? an?|tokens ?/)[ -]?(\d+ )?{TIME}"
    r"|\b(hourly|daily|weekly|monthly|today|\d+-hour|quota|allowance|this (minute|hour|day|week|month))\b"
    rf"|\b{OWNER}( has| have)?( already)? (exceed|only|allows?|supports?|(is|are) limited)"
    rf"|\blimit (of|for) (your|the|this) {OWNER}\b"
    r"|\b(exceeded|reached|used( up)?) your\b.{0,20} token limit",
    re.IGNORECASE,
)
"""Limits on the tokens of an account or of a time: a shorter conversation does not lift them."""
OUTGROWN_WORDS = re.compile(
    r"context(?! deadline).{0,40}(length|size|window|limit|exceed|overflow|shift)"
    r"|(maximum|available|exceed|overflow|longer than).{0,60}context(?! deadline)"
    rf"|\b{CONVERSATION}`?( \w+| \([^)]*\)){{0,3}} too long"
    rf"|\b{CONVERSATION}( length| size| tokens?)?( is| are)? too large"
    rf"|\b({CONVERSATION}[`']?( \w+)? (length|size)|length of (the |your )?{CONVERSATION}|tokens|token count)\b"
    r".{0,60}(exceed|longer than|greater than|too long|too large|must be <=)"
    rf"|\b{CONVERSATION}\b[^_:]{{0,40}}(more|less|fewer|longer|greater) than.{{0,30}}\d tokens\b"
    rf"|\b{CONVERSATION}\b[^_:]{{0,40}}exceed.{{0,40}}\d tokens\b"
    r"|too many.{0,20}tokens|too large for model|range of input length|max_model_len|session_len"
    rf"|\b{CONVERSATION}\b[^_:]{{0,40}}exceed\w*( the| this| its| a)?( [\d,]+| {LIMIT_OF})* token limit\b"
    rf"|\bexceed\w*( the| this| its| a)?( {LIMIT_OF})+ token limit\b"
    r"|\b(input|prompt|message) (characters?|tokens?) limit\b"
    rf"|\b({SERVER}|it|we) only (supports?|accepts?|allows?|handles?) .{{0,30}}\d (input )?tokens\b"
    r"|maximum.{0,30}(prompt|input|sequence|allowed|model|number of).{0,20}(length|tokens)"
    r"|(reduce|shorten).{0,40}(length|prompt|input|messages)"
    r"|max_(completion_)?tokens.{0,20}must be (at least|greater than)",
    re.IGNORECASE | re.DOTALL,
)
"""Wordings of vLLM, OpenAI, llama.cpp, SGLang, TGI, TensorRT-LLM, LM Studio, Mistral, Gemini, Anthropic and xAI."""
OUTGROWN_STATUSES = frozenset({200, 400, 413, 422})
"""Statuses with which servers report it; 200 is that of a router that puts the error into the body."""
OUTGROWN_PLAINLY = re.compile(
    r"context (size|length|window)( limit)? (has been |was |is )?exceeded"
    r"|(exceed(s|ed|ing)?|(longer|greater|larger|more) than)\b.{0,40}\bcontext (size|length|window)"
    r"|\bmaximum context (size|length|window)( of [^.]{0,40})? is [\d,]+",
    re.IGNORECASE | re.DOTALL,
)
"""Words that mean nothing else, whatever the status is and whatever is said beside them. Old versions of llama.cpp and
servers around an engine report it with status 500, routers with 404."""
OUTGROWN_QUOTA = re.compile(r"request too large|must be reduced in order to run", re.IGNORECASE)
"""One request exceeds the limit on tokens per minute (OpenAI, Groq; status 429): it can never succeed."""
FILTERED = re.compile(r"content[_ ](filter|policy|management)|safety|moderation", re.IGNORECASE)
FILTERED_STATUSES = frozenset({200, 400, 403, 422})
FILTERED_403 = re.compile(r"moderation", re.IGNORECASE)
"""OpenRouter reports its moderation with status 403, with which a network reports its own filters too."""
EXHAUSTED_CODES = re.compile(r"insufficient_quota|billing|insufficient_(credit|balance|funds)", re.IGNORECASE)
EXHAUSTED_WORDS = re.compile(
    r"insufficient_quota|billing|exceeded your current quota|credit|payment|insufficient (balance|funds)", re.IGNORECASE
)
"""Limits that stay for longer than a turn. Servers use the same words beside a limit with a short wait."""
BROKEN = re.compile(
    r"api[ _-]?key|authentication|unauthorized|access token|bearer|credentials"
    r"|(model|server|engine|worker|backend|process|runner)\b.{0,40}"
    r"(crash|died|terminated|unloaded|not loaded|shutting down|unavailable|not found|does not exist)"
    r"|out of memory|(CUDA|NCCL|HIP) error|internal (server )?error|failed to load|no models? loaded|bad gateway"
    r"|^\s*<(!doctype|html)",
    re.IGNORECASE | re.DOTALL,
)
"""Words about the key or the state of the server, and pages of a proxy: no conversation causes them."""
RETRIED_STATUSES = frozenset({408, 425, 429, 502, 503, 504, 529})
"""Statuses after which the same request may succeed: too many requests, a restart, an overloaded server."""
RETRIED_CODES = re.compile(
    r"overloaded|rate_?limit|too_?many_?requests|(service|server|temporarily)_?unavailable|^unavailable$"
    r"|resource_exhausted|server_busy",
    re.IGNORECASE,
)
"""Codes and types with the same meaning, in an error that comes with another status."""
RETRIED_WORDS = re.compile(
    r"\b(busy|overloaded|at capacity|under maintenance|temporarily)\b|\b(try|retry)( again)? (later|in a)\b",
    re.IGNORECASE,
)
"""Words with the same meaning."""
PARAMETER = re.compile(
    r"\b(unknown|unsupported|unrecogni[sz]ed|unexpected|invalid|extra|missing)( request)? "
    r"(field|parameter|argument|value|input|key|option)s?\b(?!.{0,40}\b(messages?|content)\b)"
    r"|`body\.(?!messages)\w+`|field required",
    re.IGNORECASE | re.DOTALL,
)
"""Words about the other keys of the request, which are the same for every policy."""
TEMPLATE = re.compile(r"\balternat|\btemplate\b|\bjinja|\bsystem (role|messages?)\b", re.IGNORECASE)
"""Words about the chat template of the server: the roles of a conversation are the same for every policy."""
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
        if OUTGROWN_CODES.search(f"{self.code} {self.kind}"):
            return True
        if self.status == 429 or ACCOUNT_LIMIT.search(self.message):
            return self.status in (413, 429) and bool(OUTGROWN_QUOTA.search(self.message))
        if self.status == 413:
            return True
        if OUTGROWN_PLAINLY.search(self.message):
            return self.status in OUTGROWN_STATUSES | {404, 500}
        if self.status not in OUTGROWN_STATUSES or BROKEN.search(self.message):
            return False
        return bool(OUTGROWN_WORDS.search(self.message))

    @property
    def filtered(self) -> bool:
        """Whether a filter of the server rejected the conversation."""
        if self.status not in FILTERED_STATUSES:
            return False
        words = FILTERED_403 if self.status == 403 else FILTERED
        return bool(FILTERED.search(f"{self.code} {self.kind}") or words.search(self.message))

    @property
    def exhausted(self) -> bool:
        """Whether a limit of the account is reached that no wait within a turn lifts."""
        if EXHAUSTED_CODES.search(f"{self.code} {self.kind}"):
            return True
        return self.wait_s is None and bool(EXHAUSTED_WORDS.search(self.message))

    @property
    def outside(self) -> bool:
        """Whether the cause is the account, the key or the state of the server: no conversation causes it."""
        return self.exhausted or any(
            words.search(text)
            for words, text in (
                (BROKEN, f"{self.code} {self.kind}"),
                (BROKEN, self.message),
                (ACCOUNT_LIMIT, self.message),
            )
        )

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed after a wait."""
        named = any(RETRIED_CODES.search(one) for one in (self.code, self.kind)) or RETRIED_WORDS.search(self.message)
        return (self.status in RETRIED_STATUSES or bool(named)) and not self.exhausted

    @property
    def of_turns(self) -> bool:
        """Whether the cause may be the turns of the conversation: it is, unless the words name another one.

        A rejection in words that nobody foresaw would otherwise leave out the episodes that a policy loses.
        """
        is_other = TEMPLATE.search(self.message) or PARAMETER.search(self.message)
        return self.status in (400, 422) and not is_other and not self.outside

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
