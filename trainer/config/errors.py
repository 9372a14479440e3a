"""Messages about a wrong configuration: each key with its reason, and the nearest known key."""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ...errors import TurnwiseError, reason, suggestion
from ..algorithms.component import NAME_ERROR, Component
from ..algorithms.registry import UnknownComponent, component_class

MAX_SUGGESTIONS = 3
"""Sections named for a misplaced key; if more sections have the key, none is named."""


class ConfigError(TurnwiseError):
    """An unusable configuration; the message names each wrong key and what to write instead."""


def explain(error: ValidationError, model: type[BaseModel], raw: Mapping[str, Any], smallest: Mapping[str, Any]) -> str:
    """Return a validation error of ``raw`` against ``model`` as one line with a fix per key.

    Args:
        smallest: plain values with every key of every section, for keys in the wrong section.
    """
    everywhere = list(_keys(smallest))
    lines = []
    for item in error.errors():
        path = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            last = str(item["loc"][-1])
            homes = [f"`{key}`" for key in everywhere if key.rpartition(".")[2] == last]
            known = fields_at(model, item["loc"][:-1], raw)
            hint = f" (did you mean {' or '.join(homes)}?)" if 0 < len(homes) <= MAX_SUGGESTIONS else None
            lines.append(f"`{path}`: unknown key{hint or suggestion(last, known)}")
        elif item["type"] == NAME_ERROR:
            lines.append(f"`{path}`: {item['msg']}")
        elif item["type"] == "list_type" and isinstance(item["input"], dict):
            lines.append(f"`{path}`: expected a list of tables, which has double brackets: [[{path}]]")
        else:
            lines.append(f"{f'`{path}`: ' if path else ''}{_message(reason(item), item['input'])}")
    return "; ".join(lines)


def _message(text: str, value: Any) -> str:
    return text if isinstance(value, Mapping) else f"{text}, got {value!r}"[:300]


def fields_at(model: Any, path: tuple[int | str, ...], raw: Any = None) -> list[str]:
    """Return the field names at ``path`` inside ``model``; ``raw`` names the components whose options are meant."""
    for part in path:
        raw = _inside(raw, part)
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        if field is None:
            return []
        model = _model_in(field.annotation)
        if model is None:
            return []
    if issubclass(model, Component):
        name = _inside(raw, "name") or model.default
        try:
            model = component_class(model, str(name))
        except UnknownComponent:
            return []
    return [*model.model_fields, *getattr(model, "more_fields", ())]


def _model_in(annotation: Any) -> Any:
    """Return the model that an annotation such as ``list[Annotated[X, …]]`` or ``X | None`` contains; else None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in get_args(annotation) if (found := _model_in(one)) is not None), None)


def _inside(node: Any, part: int | str) -> Any:
    try:
        return node[part]
    except (KeyError, IndexError, TypeError):
        return None


def _keys(node: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of every key inside plain values; items of lists by number, as ``--set`` takes them."""
    inside = enumerate(node) if isinstance(node, list) else node.items() if isinstance(node, Mapping) else ()
    for key, value in inside:
        if isinstance(node, Mapping):
            yield f"{path}{key}"
        yield from _keys(value, f"{path}{key}.")
