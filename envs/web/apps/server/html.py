"""Build HTML from Python: ``Html`` is HTML already; every other text is escaped."""

import html
from collections.abc import Iterable, Sequence

VOID = frozenset({"br", "hr", "input", "link", "meta"})
STYLE = """
body { font-family: sans-serif; margin: 0 auto; max-width: 60rem; padding: 0 1rem; line-height: 1.4; }
nav a, nav form { margin-right: 1rem; } nav form, td form, li form { display: inline; }
table { border-collapse: collapse; width: 100%; } th, td { border: 1px solid #bbb; padding: .3rem; text-align: left; }
label { display: block; margin-top: .6rem; } label.inline { display: inline; }
[role=alert] { background: #fdd; padding: .5rem; } [role=status] { background: #dfd; padding: .5rem; }
textarea { width: 100%; }
"""


class Html(str):
    """Text that is HTML and is not escaped again."""

    __slots__ = ()


def join(*content: object) -> Html:
    """Concatenate content: ``Html`` unchanged, None omitted, lists flattened, other text escaped."""
    return Html("".join(_piece(each) for each in content))


def _piece(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, Html):
        return content
    if isinstance(content, (list, tuple)):
        return "".join(_piece(each) for each in content)
    return html.escape(str(content))


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """Return an element; attributes: None and False are omitted, True has no value, ``class_`` is ``class``."""
    written = "".join(
        f" {key.strip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{join(*content)}</{name}>")


def link(text: str, href: str) -> Html:
    """Return a link."""
    return tag("a", text, href=href)


def button(text: str, name: str | None = None, value: str | None = None) -> Html:
    """Return a button that submits its form."""
    return tag("button", text, type="submit", name=name, value=value)


def form(action: str, *content: object, method: str = "post") -> Html:
    """Return a form with its content."""
    return tag("form", *content, action=action, method=method)


def press(text: str, action: str) -> Html:
    """Return a form that consists of one button."""
    return form(action, button(text))


def field(label: str, name: str, value: object = "", kind: str = "text") -> Html:
    """Return a labeled single-line input; ``kind`` is ``text``, ``password``, ``search`` or ``number``."""
    digits = "numeric" if kind == "number" else None
    shape = "text" if digits else kind
    box = tag("input", type=shape, inputmode=digits, id=name, name=name, value=value)
    return join(tag("label", label, for_=name), box)


def area(label: str, name: str, value: str = "", rows: int = 8) -> Html:
    """Return a labeled multi-line input."""
    # Browsers drop the first newline of a textarea.
    return join(tag("label", label, for_=name), tag("textarea", "\n" + value, id=name, name=name, rows=rows))


def select(label: str, name: str, options: Iterable[tuple[object, str]], chosen: object = "") -> Html:
    """Return a labeled drop-down list of (value, text)."""
    items = [tag("option", text, value=value, selected=str(value) == str(chosen)) for value, text in options]
    return join(tag("label", label, for_=name), tag("select", items, id=name, name=name))


def tick(label: str, name: str, ticked: bool = False, value: object = "1") -> Html:
    """Return a labeled checkbox."""
    return _inline("checkbox", label, name, value, ticked)


def choice(legend: str, name: str, options: Iterable[tuple[object, str]], chosen: object = "") -> Html:
    """Return radio buttons for (value, text), under a legend."""
    buttons = [tag("div", _inline("radio", text, name, value, str(value) == str(chosen))) for value, text in options]
    return tag("fieldset", tag("legend", legend), buttons)


def _inline(kind: str, label: str, name: str, value: object, ticked: bool) -> Html:
    key = f"{name}-{value}"
    box = tag("input", type=kind, id=key, name=name, value=value, checked=ticked)
    return join(box, tag("label", label, for_=key, class_="inline"))


def hidden(name: str, value: object) -> Html:
    """Return a hidden value of a form."""
    return tag("input", type="hidden", name=name, value=value)


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table, or a sentence if it has no rows."""
    body = [tag("tr", [tag("td", cell) for cell in row]) for row in rows]
    head = tag("tr", [tag("th", text, scope="col") for text in headers])
    if not body:
        return tag("p", f"No {caption.lower()}.")
    return tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return a table of two columns: names and values."""
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs]
    return tag("table", tag("tbody", rows))


def bullets(items: Iterable[object]) -> Html:
    """Return a bulleted list."""
    return tag("ul", [tag("li", item) for item in items])


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def paragraphs(text: str) -> Html:
    """Return text as paragraphs, one per line that is not empty."""
    return join([tag("p", line) for line in text.split("\n") if line.strip()])
