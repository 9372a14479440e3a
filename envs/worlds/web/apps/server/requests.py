"""Parse the requests of a browser: forms, queries and cookies. Only ``BadRequest`` is raised."""

import re
import urllib.parse
from collections.abc import Mapping

MAX_BODY = 1 << 20
MAX_FIELDS = 500
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)


class BadRequest(Exception):
    """The request is not one that the app's forms send."""


def cleaned(value: str) -> str:
    """Return text as stored: newlines are ``\\n``, no control characters except tabs, no white space at the ends."""
    return _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).strip()


class Form(dict[str, list[str]]):
    """The values by field name, in the order of the request."""

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of a field."""
        return self[name][-1] if self.get(name) else default

    def number(self, name: str) -> int | None:
        """Return the last value as an integer; None if it is not one, or has more than nine digits."""
        value = self.text(name)
        return int(value) if _INTEGER.fullmatch(value) else None

    def texts(self, *names: str) -> dict[str, str]:
        """Return the last values of some fields."""
        return {name: self.text(name) for name in names}

    def ticked(self, name: str) -> int:
        """Return 1 if a checkbox is ticked, else 0, as stored."""
        return int(self.text(name) == "1")

    def numbers(self, name: str) -> list[int]:
        """Return all values that are integers, without duplicates."""
        return list(dict.fromkeys(int(value) for value in self.get(name, []) if _INTEGER.fullmatch(value)))


def parse_form(body: str) -> Form:
    """Parse an ``application/x-www-form-urlencoded`` body or a query. Raises BadRequest: there are too many fields."""
    try:
        pairs = urllib.parse.parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except ValueError as error:
        raise BadRequest(f"more than {MAX_FIELDS} fields") from error
    form = Form()
    for name, value in pairs:
        form.setdefault(name, []).append(cleaned(value))
    return form


def parse_cookies(header: str) -> dict[str, str]:
    """Parse a ``Cookie`` header; the first cookie of a name counts."""
    cookies: dict[str, str] = {}
    for part in header.split(";"):
        name, sign, value = part.strip().partition("=")
        if sign and name:
            cookies.setdefault(name, value)
    return cookies


def query(values: Mapping[str, object]) -> str:
    """Return a query with these values; empty ones are omitted."""
    kept = {name: value for name, value in values.items() if value not in ("", None)}
    return "?" + urllib.parse.urlencode(kept) if kept else ""
