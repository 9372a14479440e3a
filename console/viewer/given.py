"""The parts of a URL that a page reads, checked."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from ...errors import TurnwiseError, suggestion

COUNT_MAX = 2**31 - 1
TEXT_MAX = 2_000
SPAN_PATTERN = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


class Kind(Enum):
    """The values of a parameter of a query, if they are not some names."""

    TEXT = "text"
    NUMBER = "number"
    SPAN = "span"


TEXT, NUMBER, SPAN = Kind
Values = Kind | tuple[str, ...]


class BadAddress(TurnwiseError):
    """A part of the URL has no meaning."""


@dataclass(frozen=True, slots=True)
class Given:
    """The names in the path of a URL, and its query."""

    path: Mapping[str, str]
    query: Mapping[str, str]

    def check(self, declared: Mapping[str, Values]) -> None:
        """Raise BadAddress: a parameter of the query is not declared, or its value is not of the declared ones."""
        for name in self.query:
            if name not in declared:
                known = suggestion(name[:80], list(declared))
                raise BadAddress(f"the page has no parameter `{name[:80]}`{known}")
            match declared[name]:
                case Kind.TEXT:
                    self.text(name)
                case Kind.NUMBER:
                    self.number(name)
                case Kind.SPAN:
                    self.span(name)
                case names:
                    self.choice(name, names)

    def text(self, name: str) -> str | None:
        """Return a value of the query; None if it is missing or empty. Raises BadAddress: it is too long."""
        value = self.query.get(name) or None
        if value is not None and len(value) > TEXT_MAX:
            raise BadAddress(f"`{name}` has {len(value):,} characters; at most {TEXT_MAX:,} are read")
        return value

    def choice(self, name: str, known: Collection[str]) -> str | None:
        """Return a value of the query that is one of ``known``; None if it is missing. Raises BadAddress."""
        value = self.text(name)
        if value is not None and value not in known:
            raise BadAddress(f"`{name}`: there is no {value!r}{suggestion(value, sorted(known))}")
        return value

    def number(self, name: str, default: int = 0) -> int:
        """Return a whole number of the query or the path that is not negative. Raises BadAddress."""
        value = self.path.get(name) or self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 11 and int(value) <= COUNT_MAX):
            raise BadAddress(f"`{name}`: {value[:80]!r} is not a whole number from 0 to {COUNT_MAX}")
        return int(value)

    def span(self, name: str) -> tuple[int, int] | None:
        """Return the ends of a span of whole numbers, such as ``3-8``; None if it is missing. Raises BadAddress."""
        value = self.text(name)
        if value is None:
            return None
        if not (found := SPAN_PATTERN.fullmatch(value)):
            raise BadAddress(f"`{name}`: {value[:80]!r} is not a span of whole numbers, such as 3-8")
        return int(found[1]), int(found[2])
