"""What a browser sends, parsed: forms, queries and cookies. Nothing here raises but ``BadRequest``."""

import re
import urllib.parse
from collections.abc import Mapping

MAX_BODY = 1 << 20
MAX_FIELDS = 500
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)


class BadRequest(Exception):
    """The browser sent what no form of ours sends."""


def cleaned(value: str) -> str:
    """Text as it is stored: newlines are ``\\n``, no control characters but tabs, no white space at the ends."""
    return _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).strip()


class Form(dict[str, list[str]]):
    """The values by field name, in the order in which they came."""

    def text(self, name: str, default: str = "") -> str:
        """The last value of a field."""
        return self[name][-1] if self.get(name) else default

    def number(self, name: str) -> int | None:
        """The last value as a whole number; None if it is none, or has more than nine digits."""
        value = self.text(name)
        return int(value) if _INTEGER.fullmatch(value) else None

    def numbers(self, name: str) -> list[int]:
        """All values that are whole numbers, each once."""
        return list(dict.fromkeys(int(value) for value in self.get(name, []) if _INTEGER.fullmatch(value)))


def parse_form(body: str) -> Form:
    """An ``application/x-www-form-urlencoded`` body or a query.

    Raises:
        BadRequest: more fields than any form has.
    """
    try:
        pairs = urllib.parse.parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except ValueError as error:
        raise BadRequest(f"more than {MAX_FIELDS} fields") from error
    form = Form()
    for name, value in pairs:
        form.setdefault(name, []).append(cleaned(value))
    return form


def parse_cookies(header: str) -> dict[str, str]:
    """The cookies of a ``Cookie`` header; of a name that comes twice, the first."""
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, sign, value = part.strip().partition("=")
        if sign and name:
            cookies.setdefault(name, value)
    return cookies


def query(values: Mapping[str, object]) -> str:
    """A query that says these values; empty ones are left out."""
    kept = {name: value for name, value in values.items() if value not in ("", None)}
    return "?" + urllib.parse.urlencode(kept) if kept else ""
