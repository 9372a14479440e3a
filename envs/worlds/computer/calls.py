"""Parse the last line of an agent's text as one call of a known verb with literal arguments; nothing is executed.

A kind of screen has its own table of verbs. Text that is not an action becomes an ``InvalidAction`` with a message for
the agent; parsing never raises.
"""

import ast
import difflib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_ACTION_CHARS = 8000
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = frozenset("\\'\"abfnrtvxuUN")
TYPED_CONTROLS = frozenset("\n\t\b")
"""The control characters that a key types: Return, Tab and BackSpace."""


@dataclass(frozen=True, slots=True)
class Action:
    """A parsed action; ``arguments`` are JSON values, as the driver takes them."""

    verb: str
    arguments: Mapping[str, Any]

    def as_request(self) -> dict[str, Any]:
        """Return the JSON object that the driver executes."""
        return {"verb": self.verb, **self.arguments}


@dataclass(frozen=True, slots=True)
class InvalidAction:
    """Text that is not an action, with the message that the agent reads."""

    message: str


class Invalid(Exception):
    """Carries the message of an ``InvalidAction``; a function of ``verbs`` raises it."""


Verb = tuple[Callable[..., dict[str, Any]], str]
"""A function that takes the arguments of a call and returns them as JSON values, and the line that the agent reads."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The calls that one kind of screen accepts."""

    verbs: Mapping[str, Verb]
    not_a_call: str
    """The message for text that is not a call."""
    other_names: Mapping[str, str] = field(default_factory=dict)
    """Names that agents write from habit, with the verb that the error message suggests."""

    @property
    def usage(self) -> str:
        """The lines of all verbs."""
        return "\n".join(usage for _, usage in self.verbs.values())

    def parse(self, text: str) -> Action | InvalidAction:
        """Return the action on the last line of ``text`` that is not empty."""
        try:
            return self._parse(text)
        except Invalid as invalid:
            return InvalidAction(str(invalid))
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return InvalidAction(self.not_a_call)

    def _parse(self, text: str) -> Action:
        call = ast.parse(literal(last_line(text)), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise Invalid(self.not_a_call)
        verb = call.func.id
        if verb not in self.verbs:
            raise Invalid(self._unknown(verb))
        read, usage = self.verbs[verb]
        try:
            values = [ast.literal_eval(argument) for argument in call.args]
            named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
            arguments = read(*values, **named)
        except (TypeError, ValueError):
            raise Invalid(f"invalid arguments; usage: {usage}") from None
        return Action(verb, arguments)

    def _unknown(self, verb: str) -> str:
        close = difflib.get_close_matches(verb, self.verbs, n=1)
        suggestion = self.other_names.get(verb) or (close[0] if close else "")
        hint = f"; did you mean {suggestion}?" if suggestion else "."
        return f"unknown action {verb[:40]!r}{hint} Actions: {', '.join(self.verbs)}"


def last_line(text: str) -> str:
    """Return the last line that is not empty, without blanks and backticks around it.

    Raises:
        Invalid: the line is too long.
    """
    lines = (line.strip().strip("`") for line in reversed(text.strip().split("\n")))
    last = next((line for line in lines if line), "")
    if len(last) > MAX_ACTION_CHARS:
        raise Invalid(f"invalid action: the last line is longer than {MAX_ACTION_CHARS} characters")
    return last


def literal(line: str) -> str:
    """Double every backslash that does not start an escape; Python would warn on stderr.

    A carriage return becomes its escape, because Python would end the line there.
    """
    doubled = ESCAPE.sub(lambda escape: escape[0] if escape[1] in ESCAPES else f"\\{escape[0]}", line)
    return doubled.replace("\r", "\\r")


def number(value: Any) -> int:
    """Return the number of an element. Raises Invalid if it is not a non-negative integer."""
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
        raise Invalid(f"{value!r:.40} is not a non-negative integer")
    return value


def coordinate(value: Any) -> float:
    """Return a coordinate in pixels. Raises Invalid if it is not a number, or absurd."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -(10**5) < value < 10**5:
        raise Invalid(f"{value!r:.40} is not a coordinate")
    return float(value)


def string(value: Any) -> str:
    """Return a text; numbers are accepted too. Raises Invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Invalid(f"{value!r:.40} is not a string")
    return str(value)


def lines(value: Any) -> str:
    """Return a text with ``\\n`` for each line end; a page or program would take CR LF for two. Raises Invalid."""
    return string(value).replace("\r\n", "\n").replace("\r", "\n")


def typed(value: Any) -> str:
    """Return a text to type, as ``lines`` does. Raises Invalid if no key types one of its characters."""
    text = lines(value)
    for letter in text:
        if letter not in TYPED_CONTROLS and unicodedata.category(letter) in ("Cc", "Cs"):
            raise Invalid(f"no key types the character U+{ord(letter):04X}; leave it out, nothing was typed")
    return text


def one_of(value: Any, options: tuple[str, ...]) -> str:
    """Return the value. Raises Invalid if it is not one of the options."""
    if value not in options:
        raise Invalid(f"{value!r:.40} is not one of {', '.join(options)}")
    return str(value)


def target(first: Any, y: Any = None) -> dict[str, Any]:
    """Return the arguments of an element by its number, or of a point by its coordinates. Raises Invalid."""
    return {"id": number(first)} if y is None else {"x": coordinate(first), "y": coordinate(y)}
