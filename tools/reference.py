"""Write docs/configuration.md, docs/commands.md, the catalogue in docs/algorithms.md and the pictures of the schema in
docs/store.md: ``python tools/reference.py``.

``tests/house/test_reference.py`` fails while a page differs from the code.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sqlalchemy import Table
from turnwise.console.command_line import app
from turnwise.store.maintenance.integrity import UNCOVERED_COLUMNS, UNCOVERED_ROWS
from turnwise.store.schema import metadata
from turnwise.trainer.algorithms.algorithm_set import SLOTS, AlgorithmSet
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.registry import component_class, component_names
from turnwise.trainer.config.loading import PRESETS, preset_names
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import EnvironmentConfig
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

Commands = Iterator[tuple[tuple[str, ...], TyperCommand]]
DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by tools/reference.py; edit the docstrings in the code, then run `make docs`. -->\n"
CATALOGUE = (
    "<!-- From here on written by tools/reference.py; edit the docstrings in the code, then run `make docs`. -->\n"
)
SCHEMA = "<!-- From here to the next mark written by tools/reference.py from store/schema; run `make docs`. -->\n"
SCHEMA_END = "<!-- The pictures of the schema end here. -->\n"
UNCOVERED = (
    "<!-- From here to the next mark written by tools/reference.py from store/maintenance/integrity/__init__.py; "
    "run `make docs`. -->\n"
)
UNCOVERED_END = "<!-- The list of changes ends here. -->\n"
PICTURES = {
    "Queue": ["run", "task", "rollout_group", "lease", "policy_version", "metric", "store_setting"],
    "Episodes": ["trajectory", "step", "partial_turn", "step_image", "reward_set", "reward"],
    "Content": ["message_image", "blob"],
    "Updates": ["train_batch", "batch_group", "batch_item"],
}
"""The tables of each picture of the schema."""
KINDS = {
    "BigInteger": "bigint",
    "Content": "bytes",
    "ExactText": "text",
    "Hash": "bytes32",
    "LargeBinary": "bytes",
    "UtcDateTime": "datetime",
}
"""The names in the pictures of the column types that are not named as in Python."""
CITATION = re.compile(r"(?:\(|Source: )([A-Z][^()]*? (?:19|20)\d\d(?:, arXiv:\d{4}\.\d{5})?)(?=[,);:. ])")
"""A paper as docstrings cite it: ``(Hu 2025, arXiv:2501.03262)``, also after ``Source:`` instead of in parentheses."""


def docs_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field of a model, its base classes included."""
    docs: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not (issubclass(cls, BaseModel) and cls is not BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for statement, following in pairwise(statements):
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and isinstance(following, ast.Expr):
                text = following.value.value if isinstance(following.value, ast.Constant) else None
                if isinstance(text, str):
                    docs[target.id] = " ".join(text.split())
    return docs


def default_of(field: FieldInfo) -> str:
    """Return a field's default as TOML shows it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, BaseModel):
        return f"`{getattr(value, 'name', type(value).__name__)}`"
    return f"`{value!r}`".replace("'", '"')


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the table rows of a model's plain fields; sections and slots have tables of their own."""
    docs = docs_of(model)
    for name, field in model.model_fields.items():
        if not section(field):
            yield f"| `{prefix}{name}` | {default_of(field)} | {docs.get(name, '')} |"


def section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that is a section of the configuration, which may be left out."""
    kind: Any = field.annotation
    inner = [one for one in get_args(kind) if one is not NoneType]
    if len(inner) == 1 and NoneType in get_args(kind):
        kind = inner[0]
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def table(lines: Iterator[str]) -> str:
    found = list(lines)
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *found]) + "\n" if found else "No options.\n"


def paragraph(kind: type) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def configuration() -> str:
    """Return docs/configuration.md."""
    slots = AlgorithmSet.model_fields
    plain = [f"| `{name}` | {default_of(field)} | {docs_of(RunConfig).get(name, '')} |" for name, field in top_level()]
    parts = [NOTE, "# Configuration\n", paragraph(RunConfig) + "\n", "## Top level\n", table(iter(plain))]
    for name, field in RunConfig.model_fields.items():
        model = section(field)
        if name == "environments":
            parts += ["## `[[environments]]`\n", paragraph(EnvironmentConfig) + "\n", table(rows(EnvironmentConfig))]
        elif model is not None and name not in slots:
            parts += [f"## `[{name}]`\n", paragraph(model) + "\n", table(rows(model))]
            for inner, inner_field in model.model_fields.items():
                if nested := section(inner_field):
                    parts += [f"### `[{name}.{inner}]`\n", paragraph(nested) + "\n", table(rows(nested))]
    parts.append("# Algorithm components\n")
    parts.append("`name` selects a component. A slot in double brackets takes a list.\n")
    for base in SLOTS:
        listed = str(slots[base.slot].annotation).startswith("list")
        heading = f"[[{base.slot}]]" if listed else f"[{base.slot}]"
        parts += [f"## `{heading}`\n", docs_of(AlgorithmSet).get(base.slot, "") + "\n"]
        default = getattr(base, "default", "")
        for name in component_names(base):
            kind = component_class(base, name)
            note = " (default)" if name == default and not listed else ""
            parts += [f"### `{name}`{note}\n", paragraph(kind) + "\n", table(rows(kind))]
    return "\n".join(parts)


def sources_of(text: str) -> str:
    """Return the papers that a docstring or comment cites, with a link for each arXiv id; ``ours`` if it says so."""
    text = " ".join(text.split())
    cited = dict.fromkeys(CITATION.findall(text)) or (["ours"] if "Source: ours." in text else [])
    return re.sub(r"arXiv:([\d.]+)", r"[arXiv:\1](https://arxiv.org/abs/\1)", "; ".join(cited))


def without_sources(text: str) -> str:
    """Return the first paragraph of a docstring or comment on one line, without what it cites in parentheses."""
    first = " ".join(text.split("\n\n")[0].partition("Source: ")[0].split())
    return re.sub(r" \(" + CITATION.pattern.partition("Source: )")[2] + r"\)", "", first)


def method_row(base: type[Component], name: str) -> str:
    """Return the table row of a method: its name, the first paragraph of its file, its sources, and its options."""
    kind = component_class(base, name)
    text = inspect.getdoc(sys.modules[kind.__module__]) or ""
    default = " (default)" if name == base.default else ""
    options = ", ".join(f"`{key}` = {default_of(field)}" for key, field in kind.model_fields.items())
    return f"| `{name}`{default} | {without_sources(text)} | {sources_of(text) or '–'} | {options or '–'} |"


def preset_row(name: str) -> str:
    """Return the table row of a preset: its name, the comment at its top, its sources, and the keys that it sets."""
    text = (PRESETS / f"{name}.toml").read_text()
    about = comment(text)
    keys = (f"`{key} = {value}`" for key, value in preset_keys(tomllib.loads(text)))
    return f"| `{name}` | {without_sources(about)} | {sources_of(about)} | {', '.join(keys)} |"


def comment(text: str) -> str:
    """Return the lines of a TOML file that are comments, without their marks."""
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))


def preset_keys(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of a preset with their values as TOML shows them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from preset_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value)


def algorithms() -> str:
    """Return docs/algorithms.md: the page as it is up to the catalogue, then the catalogue."""
    parts = [(DOCS / "algorithms.md").read_text().partition(CATALOGUE)[0] + CATALOGUE, "## Catalogue\n"]
    parts.append("[configuration.md](configuration.md) explains the options.\n")
    head = ["| name | method | source | options |", "|---|---|---|---|"]
    for base in SLOTS:
        parts.append(f"### `{base.slot}`\n\n{docs_of(AlgorithmSet).get(base.slot, '')}\n")
        parts.append("\n".join([*head, *(method_row(base, name) for name in component_names(base))]) + "\n")
    parts.append('### Presets\n\n`preset = "grpo"` sets these keys; keys of your own take precedence.\n')
    head = ["| preset | about | source | keys |", "|---|---|---|---|"]
    parts.append("\n".join([*head, *map(preset_row, preset_names())]) + "\n")
    return "\n".join(parts)


def top_level() -> list[tuple[str, FieldInfo]]:
    """Return the keys of a configuration that are neither a section nor a slot."""
    found = RunConfig.model_fields.items()
    return [(n, f) for n, f in found if n not in AlgorithmSet.model_fields and n != "environments" and not section(f)]


def commands(
    group: TyperGroup, path: tuple[str, ...] = ("turnwise",)
) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Yield every command below a group, with its path."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        elif isinstance(command, TyperCommand):
            yield (*path, name), command


def command_page() -> str:
    """Return docs/commands.md."""
    parts = [NOTE, "# Commands\n"]
    root = cast(TyperGroup, get_command(app))
    for path, command in commands(root):
        parts += [f"## `{' '.join(path)}`\n", inspect.cleandoc(command.help or "").split("\f")[0] + "\n"]
        lines = []
        for parameter in command.params:
            label = ", ".join(f"`{opt}`" for opt in (*parameter.opts, *parameter.secondary_opts))
            if parameter.param_type_name == "argument":
                label = f"`{parameter.metavar or (parameter.name or '').upper()}`"
            if parameter.name != "help":
                lines.append(f"| {label} | {' '.join((getattr(parameter, 'help', '') or '').split())} |")
        if lines:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def references(table: Table) -> list[tuple[list[str], str]]:
    """Return the references of a table: the columns of each, and the table that it refers to.

    A column without a foreign key refers to the table that its name contains.
    """
    found = [(key.column_keys, key.referred_table.name) for key in table.foreign_key_constraints]
    bound = {name for names, _ in found for name in names}
    order = [column.name for column in table.columns]
    for name in (name for name in order if name not in bound):
        if owner := re.fullmatch(r"(run|trajectory)_no|(?:\w+_)?(blob)(?:_hash)?", name):
            found.append(([name], owner[1] or owner[2]))
    return sorted(found, key=lambda one: [order.index(name) for name in one[0]])


def entity(table: Table) -> str:
    """Return a table as an entity of a Mermaid diagram: the type, name and keys of each column."""
    foreign = {name for names, _ in references(table) for name in names}
    lines = []
    for column in table.columns:
        keys = ["PK"] * column.primary_key + ["FK"] * (column.name in foreign) + ["UK"] * bool(column.unique)
        kind = type(column.type).__name__
        lines.append(f"        {KINDS.get(kind, kind.lower())} {column.name} {', '.join(keys)}".rstrip())
    return "\n".join([f"    {table.name} {{", *lines, "    }"])


def relation(table: Table, names: list[str], referred: str) -> str:
    """Return a reference as a line of a Mermaid diagram: rows of the referred table, then rows of ``table``."""
    one = "|o" if any(table.columns[name].nullable for name in names) else "||"
    many = "o|" if names == [column.name for column in table.primary_key] else "o{"
    return f'    {referred} {one}--{many} {table.name} : "{", ".join(names)}"'


def schema_pictures() -> str:
    """Return docs/store.md: the page with its pictures of the schema written again from the tables.

    Raises:
        ValueError: a table is in no picture, or a picture names a table that does not exist.
    """
    listed = sorted(name for names in PICTURES.values() for name in names)
    if listed != sorted(metadata.tables):
        raise ValueError(f"`PICTURES` and the tables of store/schema differ: {set(listed) ^ set(metadata.tables)}")
    before, _, rest = (DOCS / "store.md").read_text().partition(SCHEMA)
    parts = [before, SCHEMA]
    for title, names in PICTURES.items():
        tables = [metadata.tables[name] for name in names]
        lines = [
            *map(entity, tables),
            *(relation(table, *reference) for table in tables for reference in references(table)),
        ]
        parts.append("\n".join([f"\n### {title}\n", "```mermaid", "erDiagram", *lines, "```"]) + "\n")
    return "".join([*parts, "\n", SCHEMA_END, rest.partition(SCHEMA_END)[2]])


def store_page() -> str:
    """Return docs/store.md with its pictures of the schema and its list of the changes that no check finds."""
    before, _, rest = schema_pictures().partition(UNCOVERED)
    lines = [f"* `{name}`: {reason}" for name, reason in {**UNCOVERED_COLUMNS, **UNCOVERED_ROWS}.items()]
    return "".join([before, UNCOVERED, "\n", "\n".join(lines), "\n\n", UNCOVERED_END, rest.partition(UNCOVERED_END)[2]])


def markdown(page: Callable[[], str]) -> str:
    """Return a page with the code marks of docstrings as Markdown has them."""
    return re.sub("(?<!`)``(?!`)", "`", page())


PAGES = {
    "configuration.md": configuration,
    "commands.md": command_page,
    "algorithms.md": algorithms,
    "store.md": store_page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(markdown(page))
        print(f"docs/{name} written")
