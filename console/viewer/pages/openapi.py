"""The schema of the API (OpenAPI 3.1), made from the records of the pages and the parameters that they declare."""

import ast
import inspect
import re
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from .... import __version__
from ..given import COUNT_MAX, NUMBER, SPAN, SPAN_PATTERN, TEXT_MAX, Values
from .listing import PAGES, Page

PARAMETER = re.compile(r"{(\w+)(:path)?}")
ERRORS = {
    "400": "A parameter is not declared, or has a value without a meaning.",
    "404": "The store holds no such run, group, trajectory or update.",
    "409": "The store holds something unexpected.",
    "410": "Retention removed the trajectory.",
    "503": "The store cannot be read, or another version of turnwise upgraded it.",
}
REFUSALS = {
    "401": "The token is missing.",
    "403": "A page of another site sent the request.",
    "405": "The method is not GET or HEAD.",
    "421": "The `Host` is not this server's.",
}
"""The responses to requests that no page sees, in plain text."""


@cache
def openapi() -> dict[str, Any]:
    """Return the schema of every page's record and query, and of the errors."""
    adapters: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (page.path, "serialization", TypeAdapter(get_type_hints(page.load)["return"])) for page in PAGES
    ]
    records, found = TypeAdapter.json_schemas(
        adapters,
        schema_generator=_Schema,
        ref_template="#/components/schemas/{model}",
    )
    schemas = found["$defs"] | {
        "Error": {
            "type": "object",
            "description": "Why there is no record.",
            "properties": {"error": {"type": "string"}},
            "required": ["error"],
            "additionalProperties": False,
        }
    }
    paths = {_path(page): {"get": _operation(page, records[page.path, "serialization"])} for page in PAGES}
    info = {"title": "turnwise view", "version": __version__, "description": "The records of the viewer's pages."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _path(page: Page) -> str:
    return "/api" + PARAMETER.sub(r"{\1}", page.path)


def _operation(page: Page, record: JsonSchemaValue) -> dict[str, Any]:
    summary, _, description = inspect.cleandoc(page.load.__doc__ or "").partition("\n\n")
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"} if whole else _schema_of(NUMBER)}
        for name, whole in PARAMETER.findall(page.path)
    ]
    in_query = [{"name": name, "in": "query", "schema": _schema_of(values)} for name, values in page.query.items()]
    errors = {code: _response(text, {"$ref": "#/components/schemas/Error"}) for code, text in ERRORS.items()}
    refusals = {code: _response(text, {"type": "string"}, "text/plain") for code, text in REFUSALS.items()}
    return {
        "operationId": page.load.__name__,
        "summary": " ".join(summary.split()),
        "description": description,
        "parameters": in_path + in_query,
        "responses": {"200": _response("The record of the page.", record), **errors, **refusals},
    }


def _response(text: str, schema: JsonSchemaValue, kind: str = "application/json") -> dict[str, Any]:
    return {"description": text, "content": {kind: {"schema": schema}}}


def _schema_of(values: Values) -> dict[str, Any]:
    """Return the schema of a parameter; an empty value, as a form sends it, is the same as none."""
    if values is NUMBER:
        number = {"type": "integer", "minimum": 0, "maximum": COUNT_MAX}
        return {"anyOf": [number, {"type": "string", "maxLength": 0}]}
    if values is SPAN:
        return {"type": "string", "pattern": f"^({SPAN_PATTERN.pattern})?$"}
    if isinstance(values, tuple):
        return {"type": "string", "enum": [*values, ""]}
    return {"type": "string", "maxLength": TEXT_MAX}


class _Schema(GenerateJsonSchema):
    """Records as ``jsonable`` writes them: every field is there, and a number that is not finite is null."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        found = super().dataclass_schema(schema)
        bases = [one for one in schema["cls"].__mro__ if is_dataclass(one)]
        texts = {name: text for one in bases for name, text in field_texts(one).items()}
        for name, of_field in found["properties"].items():
            of_field.pop("default", None)
            if name in texts:
                of_field["description"] = texts[name]
        return found | {"required": list(found["properties"]), "additionalProperties": False}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"type": ["number", "null"]}

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        return {"type": "string", "pattern": "^([0-9a-f]{2})*$"}


def field_texts(record: type) -> dict[str, str]:
    """Return the docstrings of the fields of a record."""
    of_class = ast.parse(dedent(inspect.getsource(record))).body[0]
    assert isinstance(of_class, ast.ClassDef)  # noqa: S101 - the source of a class
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(of_class.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
