"""Write docs/configuration.md, docs/commands.md and the catalogue in docs/algorithms.md: ``python tools/reference.py``.

A line has at most ``LINE`` characters: of a longer docstring, the page has the first sentences.

``tests/house/test_reference.py`` fails while a page differs from the code.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from turnwise.console.command_line import app
from turnwise.trainer.algorithms.algorithm_set import SLOTS, AlgorithmSet
from turnwise.trainer.algorithms.component import Component
from turnwise.trainer.algorithms.registry import component_class, component_names
from turnwise.trainer.config.loading import PRESETS, preset_names
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.config.sections import EnvironmentConfig
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

Commands = Iterator[tuple[tuple[str, ...], TyperCommand]]
Option = tuple[str, str, str]
"""Name, default and meaning of an option of a component."""
DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by tools/reference.py; edit the docstrings in the code, then run `make docs`. -->\n"
CATALOGUE = (
    "<!-- From here on written by tools/reference.py; edit the docstrings in the code, then run `make docs`. -->\n"
)
LINE = 100
"""Characters of a line."""
SHARED_BY = 2
"""Commands or slots that share an option with one meaning from which on the page explains it once."""
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


def brief(text: str, space: int) -> str:
    """Return the first sentences of a text that ``space`` characters hold, at least the first clause of the first."""
    first, *others = re.split(r"(?<=[.?!])(?<!Dr\.)\s+(?=[A-Z0-9`])", " ".join(text.split()))
    if len(first) > space:
        return first.partition("; ")[0].rstrip(".") + "."
    for sentence in others:
        if len(first) + 1 + len(sentence) > space:
            break
        first += f" {sentence}"
    return first


def line(label: str, text: str) -> str:
    """Return the line of an option, with as many sentences of its text as the line holds."""
    return f"* {label}: {brief(text, LINE - len(label) - len('* : '))}"


def lines(model: type[BaseModel]) -> Iterator[str]:
    """Yield the lines of a model's plain fields; sections and slots have lists of their own."""
    docs = docs_of(model)
    for name, field in model.model_fields.items():
        if not section(field):
            yield line(f"`{name}` ({default_of(field)})", docs.get(name, ""))


def options_of(base: type[Component]) -> dict[Option, list[str]]:
    """Return the options of a slot, each with the components that have it with this default and meaning."""
    owners: dict[Option, list[str]] = {}
    for name in component_names(base):
        kind = component_class(base, name)
        for key, field in kind.model_fields.items():
            owners.setdefault((key, default_of(field), docs_of(kind).get(key, "")), []).append(name)
    return owners


def slot_lines(base: type[Component], shared: Collection[Option]) -> Iterator[str]:
    """Yield the lines of a slot's options, but of the shared ones."""
    for (key, default, text), names in options_of(base).items():
        owned = "" if names == component_names(base) else f"{', '.join(names)}; "
        if (key, default, text) not in shared:
            yield line(f"`{key}` ({owned}{default})", text)


def section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that is a section of the configuration, which may be left out."""
    kind: Any = field.annotation
    inner = [one for one in get_args(kind) if one is not NoneType]
    if len(inner) == 1 and NoneType in get_args(kind):
        kind = inner[0]
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def paragraph(kind: type) -> str:
    """Return the first paragraph of a class's docstring, on one line."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def configuration() -> str:
    """Return docs/configuration.md."""
    slots = AlgorithmSet.model_fields
    plain = [line(f"`{name}` ({default_of(field)})", docs_of(RunConfig).get(name, "")) for name, field in top_level()]
    parts = [NOTE, "# Configuration\n", f"{paragraph(RunConfig)} The default is in parentheses.\n"]
    parts += ["## Top level\n", *plain]
    for name, field in RunConfig.model_fields.items():
        model = section(field)
        if name == "environments":
            parts += section_lines("## `[[environments]]`", EnvironmentConfig)
        elif model is not None and name not in slots:
            parts += section_lines(f"## `[{name}]`", model)
            for inner, inner_field in model.model_fields.items():
                if nested := section(inner_field):
                    parts += section_lines(f"### `[{name}.{inner}]`", nested)
    parts.append("\n# Algorithm components\n")
    parts.append("`name` selects a component of the [catalogue](algorithms.md#catalogue). A key belongs to the")
    parts.append("components in its parentheses, or to all of its slot. A slot in double brackets takes a list.")
    counts = Counter(option for base in SLOTS for option in options_of(base))
    shared = [option for option, count in counts.items() if count >= SHARED_BY]
    for option in shared:
        names = sorted({name for base in SLOTS for name in options_of(base).get(option, [])})
        parts.append(f"\n* `{option[0]}` ({', '.join(names)}; {option[1]}): {option[2]}")
    for base in SLOTS:
        listed = str(slots[base.slot].annotation).startswith("list")
        if options := list(slot_lines(base, shared)):
            parts += [f"\n## `{f'[[{base.slot}]]' if listed else f'[{base.slot}]'}`\n", *options]
    return "\n".join(parts) + "\n"


def section_lines(heading: str, model: type[BaseModel]) -> list[str]:
    """Return a heading, the first paragraph on a section, and its keys."""
    return [f"\n{heading}\n", f"{paragraph(model)}\n", *lines(model)]


def sources_of(text: str) -> str:
    """Return the papers that a docstring or comment cites, linked if they have an arXiv id; ``ours`` if it says so."""
    text = " ".join(text.split())
    cited = dict.fromkeys(CITATION.findall(text)) or (["ours"] if "Source: ours." in text else [])
    return "; ".join(re.sub(r"(.*), arXiv:([\d.]+)", r"[\1](https://arxiv.org/abs/\2)", paper) for paper in cited)


def without_sources(text: str) -> str:
    """Return the first paragraph of a docstring or comment on one line, without what it cites in parentheses."""
    first = " ".join(text.split("\n\n")[0].partition("Source: ")[0].split())
    return re.sub(r" \(" + CITATION.pattern.partition("Source: )")[2] + r"\)", "", first)


def method_line(base: type[Component], name: str) -> str:
    """Return the line of a method: its name, the first sentence of its file, and its sources."""
    text = inspect.getdoc(sys.modules[component_class(base, name).__module__]) or ""
    default = " (default)" if name == base.default else ""
    source = f" ({sources_of(text)})" if sources_of(text) not in ("", "ours") else ""
    return f"* `{name}`{default}: {brief(without_sources(text), 0).rstrip('.')}{source}."


def preset_lines(name: str) -> str:
    """Return the lines on a preset: the first sentence at its top, its sources, and the keys that it sets."""
    text = (PRESETS / f"{name}.toml").read_text()
    about = comment(text)
    source = f" ({sources_of(about)})" if sources_of(about) not in ("", "ours") else ""
    keys = ", ".join(f"`{key}={value}`" for key, value in preset_keys(tomllib.loads(text)))
    shown = textwrap.fill(keys, LINE, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
    return f"* `{name}`: {brief(without_sources(about), 0).rstrip('.')}{source}.\n{shown}"


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
    parts.append("A method without a source is ours. [configuration.md](configuration.md) explains the options.\n")
    for base in SLOTS:
        parts.append(f"### `{base.slot}`\n")
        parts.append("\n".join(method_line(base, name) for name in component_names(base)) + "\n")
    parts.append('### Presets\n\n`preset = "grpo"` sets these keys; keys of your own take precedence.\n')
    parts.append("\n".join(map(preset_lines, preset_names())) + "\n")
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


def parameters(command: TyperCommand) -> Iterator[tuple[str, str, bool]]:
    """Yield the label of each parameter of a command, its meaning, and whether it is an option."""
    for parameter in command.params:
        option = parameter.param_type_name != "argument"
        label = ", ".join(f"`{opt}`" for opt in (*parameter.opts, *parameter.secondary_opts))
        if not option:
            label = f"`{parameter.metavar or (parameter.name or '').upper()}`"
        if parameter.name != "help":
            yield label, " ".join((getattr(parameter, "help", "") or "").split()), option


def command_page() -> str:
    """Return docs/commands.md: the options that several commands share, then each command with its own."""
    listed = list(commands(cast(TyperGroup, get_command(app))))
    counts = Counter((label, text) for _, command in listed for label, text, option in parameters(command) if option)
    shared = [one for one, count in counts.items() if count >= SHARED_BY]
    head = (Path(__file__).parent / "commands_head.md").read_text()
    parts = [NOTE, head, "## Options of several commands\n"]
    parts += [line(label, text) for label, text in sorted(shared)]
    for path, command in listed:
        about = inspect.cleandoc(command.help or "").split("\f")[0].split("\n\n")[0]
        parts += [f"\n## `{' '.join(path)}`\n", f"{about}\n"]
        found = list(parameters(command))
        parts += [line(label, text) for label, text, _ in found if (label, text) not in shared]
    return "\n".join(parts) + "\n"


def markdown(page: Callable[[], str]) -> str:
    """Return a page with the code marks of docstrings as Markdown has them."""
    return re.sub("(?<!`)``(?!`)", "`", page())


PAGES = {
    "configuration.md": configuration,
    "commands.md": command_page,
    "algorithms.md": algorithms,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(markdown(page))
        print(f"docs/{name} written")
