"""The base of every error that turnwise raises on purpose.

The message of a ``TurnwiseError`` is for a person: what failed, why, and what to do about it. The console prints it
without a traceback and exits with its ``exit_code``. Any other exception that escapes is a bug: the console prints its
traceback, and exits 3.

Each part defines its errors in its own ``errors`` module; they form one tree::

    TurnwiseError
    ├── EnvError            envs.errors: an environment failed, broke its contract, or overran its timeout
    ├── SandboxError        sandbox.errors: a sandbox or its backend failed
    ├── StoreError          store.errors: the store refused, lacks or cannot reach something
    ├── ConfigError         trainer: a key of the configuration is unknown or has an invalid value
    ├── Refused             trainer: a command cannot start; the message has one line per reason
    └── …                   one class per failure of an engine, a checkpoint, a worker or a command
"""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

FAILED, REFUSED = 1, 2
"""Exit codes: the work had begun, and failed or has a negative result; nothing had begun."""


class TurnwiseError(Exception):
    """An error that the user can fix: a misspelled key, an unknown environment, an old database, a full disk."""

    exit_code: int = REFUSED
    """The exit code of a command that ends by this error."""


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the end of a message: `` (did you mean X?)``, or the list of known words if none is similar."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(sorted(known)) or 'none'})"


_REASONS = {
    "bool": "must be true or false",
    "dict": "must be a table",
    "extra_forbidden": "unknown key",
    "finite_number": "must be a finite number",
    "float": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int": "must be an integer",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list": "must be a list",
    "literal_error": "must be one of {expected}",
    "missing": "is missing",
    "mapping": "must be a table",
    "model": "must be a table",
    "model_attributes": "must be a table",
    "string": "must be a text",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "tuple": "must be a list",
}
"""Reasons by the type of pydantic's error, or by the part of it before the last underscore."""


def reason(item: Mapping[str, Any]) -> str:
    """Return why a value is not valid, from one of the ``errors()`` of pydantic's ``ValidationError``."""
    kind = str(item["type"])
    if kind == "int_from_float":
        kind = "int"
    text = _REASONS.get(kind) or _REASONS.get(kind.rpartition("_")[0])
    if text is None:
        return str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    return text.format(**item.get("ctx", {}))


def shown(value: object) -> str:
    """Return a value for an error: the beginning of its ``repr``, on one line."""
    try:
        return f"{' '.join(repr(value).split()):.80}"
    except Exception:  # noqa: BLE001 - it may be any object, or an int with more digits than Python writes
        return "a value that cannot be printed"
