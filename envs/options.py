"""Check the options of an environment; the errors name the option, the environment and the choices."""

import json
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, formatannotation, signature
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ..errors import suggestion

T = TypeVar("T")


def misfit(make: Callable[..., object], options: Mapping[str, Any]) -> str:
    """Return which option a constructor does not take, and why; empty if it takes all of them.

    A value is compared with the annotation of its parameter, if there is one that pydantic can check: whole numbers are
    also numbers, and lists are also tuples. The default of a parameter fits it, whatever its annotation.
    """
    takes = signature(make).parameters
    if not any(each.kind is Parameter.VAR_KEYWORD for each in takes.values()):
        for name in options:
            if name not in takes:
                return f"has no option {name!r}{suggestion(name, list(takes))}"
    hints = _annotations(make)
    for name, value in options.items():
        if name in takes and name in hints and not _fits(value, takes[name], hints[name]):
            return f"takes no {value!r} for the option {name!r}: {_expected(hints[name])}{_quoted(name, value, hints)}"
    return ""


def as_declared(make: Callable[..., object], values: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return options, each as the text that it was read from where a constructor takes the text and not the value."""
    takes, hints = signature(make).parameters, _annotations(make)

    def declared(name: str, value: Any) -> Any:
        if name not in takes or name not in hints or _fits(value, takes[name], hints[name]):
            return value
        return texts[name] if _is_a(texts[name], hints[name]) else value

    return {name: declared(name, value) for name, value in values.items()}


def _fits(value: Any, parameter: Parameter, annotation: Any) -> bool:
    default = parameter.default
    return (type(value) is type(default) and bool(value == default)) or _is_a(value, annotation)


def _annotations(make: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(make.__init__ if isinstance(make, type) else make)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError):
        return {}


def _expected(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return f"choose from {', '.join(map(str, get_args(annotation)))}"
    return f"its type is `{formatannotation(annotation)}`"


def _quoted(name: str, value: Any, hints: Mapping[str, Any]) -> str:
    """Return how to write a number or a flag as the text that the option takes; empty if it takes none."""
    if not isinstance(value, bool | int | float) or not _is_a(text := json.dumps(value), hints[name]):
        return ""
    return f"; quote it: `{name} = {json.dumps(text)}`"


def _is_a(value: Any, annotation: Any) -> bool:
    """Return whether a JSON value has a type; true for other values, and for types that are not JSON."""
    try:
        TypeAdapter(annotation).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    except Exception:  # noqa: BLE001 - an annotation may be any object
        return True
    return True


def one_of(option: str, value: T, choices: Iterable[T], env: str = "") -> T:
    """Return the value of an option that has choices. Raises ValueError: it is none of them."""
    known = tuple(choices)
    if value not in known:
        raise ValueError(f"unknown `{option}` {value!r}{_of(env)}; choose from {', '.join(map(str, known))}")
    return value


def not_negative(option: str, value: int, env: str = "") -> int:
    """Return the value of an option that is a count. Raises ValueError: it is negative."""
    if value < 0:
        raise ValueError(f"`{option}`{_of(env)} is {value}; choose 0 or more")
    return value


def _of(env: str) -> str:
    return f" of `{env}`" if env else ""
