"""Check the options of an environment; the errors name the option, the environment and the choices."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def one_of(option: str, value: T, choices: Iterable[T], env: str = "") -> T:
    """Return the value of an option that has choices.

    Raises:
        ValueError: it is none of them.
    """
    known = tuple(choices)
    if value not in known:
        raise ValueError(f"unknown `{option}` {value!r}{_of(env)}; choose from {', '.join(map(str, known))}")
    return value


def not_negative(option: str, value: int, env: str = "") -> int:
    """Return the value of an option that is a count.

    Raises:
        ValueError: it is negative.
    """
    if value < 0:
        raise ValueError(f"`{option}`{_of(env)} is {value}; choose 0 or more")
    return value


def _of(env: str) -> str:
    return f" of `{env}`" if env else ""
