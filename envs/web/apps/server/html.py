"""HTML as text that knows it is HTML: whatever else is put into a page is escaped."""

import html
from collections.abc import Iterable, Sequence

VOID = frozenset({"br", "hr", "input", "link", "meta"})
STYLE = """
body { font-family: sans-serif; margin: 0 auto; max-width: 60rem; padding: 0 1rem; line-height: 1.4; }
nav a, nav form { margin-right: 1rem; } nav form, td form, li form { display: inline; }
table { border-collapse: collapse; width: 100%; } th, td { border: 1px solid #bbb; padding: .3rem; text-align: left; }
label { display: block; margin-top: .6rem; } label.beside { display: inline; }
[role=alert] { background: #fdd; padding: .5rem; } [role=status] { background: #dfd; padding: .5rem; }
textarea { width: 100%; }
"""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def join(*content: object) -> Html:
    """The content in one piece: ``Html`` as it is, None left out, lists one after another, other text escaped."""
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
    """An element. An attribute that is None or False is left out, True stands alone; ``class_`` means ``class``."""
    written = "".join(
        f" {key.strip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{join(*content)}</{name}>")


def link(text: str, href: str) -> Html:
    """A link."""
    return tag("a", text, href=href)


def button(text: str, name: str | None = None, value: str | None = None) -> Html:
    """A button that submits the form it is in."""
    return tag("button", text, type="submit", name=name, value=value)


def form(action: str, *content: object, method: str = "post") -> Html:
    """A form, and all that is in it."""
    return tag("form", *content, action=action, method=method)


def press(text: str, action: str) -> Html:
    """A form that is one button."""
    return form(action, button(text))


def field(label: str, name: str, value: object = "", kind: str = "text") -> Html:
    """A labelled input of one line; ``kind`` is ``text``, ``password``, ``search`` or ``number``."""
    digits = "numeric" if kind == "number" else None
    shape = "text" if digits else kind
    box = tag("input", type=shape, inputmode=digits, id=name, name=name, value=value)
    return join(tag("label", label, for_=name), box)


def area(label: str, name: str, value: str = "", rows: int = 8) -> Html:
    """A labelled input of several lines."""
    # A browser drops the first newline of a textarea.
    return join(tag("label", label, for_=name), tag("textarea", "\n" + value, id=name, name=name, rows=rows))


def select(label: str, name: str, options: Iterable[tuple[object, str]], chosen: object = "") -> Html:
    """A labelled drop-down list of (value, text)."""
    items = [tag("option", text, value=value, selected=str(value) == str(chosen)) for value, text in options]
    return join(tag("label", label, for_=name), tag("select", items, id=name, name=name))


def tick(label: str, name: str, ticked: bool = False, value: object = "1") -> Html:
    """A labelled checkbox."""
    return _beside("checkbox", label, name, value, ticked)


def choice(legend: str, name: str, options: Iterable[tuple[object, str]], chosen: object = "") -> Html:
    """Radio buttons for (value, text), under a legend."""
    buttons = [tag("div", _beside("radio", text, name, value, str(value) == str(chosen))) for value, text in options]
    return tag("fieldset", tag("legend", legend), buttons)


def _beside(kind: str, label: str, name: str, value: object, ticked: bool) -> Html:
    key = f"{name}-{value}"
    box = tag("input", type=kind, id=key, name=name, value=value, checked=ticked)
    return join(box, tag("label", label, for_=key, class_="beside"))


def hidden(name: str, value: object) -> Html:
    """A value that a form carries along."""
    return tag("input", type="hidden", name=name, value=value)


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table; an empty one says so."""
    body = [tag("tr", [tag("td", cell) for cell in row]) for row in rows]
    head = tag("tr", [tag("th", text, scope="col") for text in headers])
    if not body:
        return tag("p", f"{caption}: none.")
    return tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """A table of two columns: what, and which."""
    rows = [tag("tr", tag("th", what, scope="row"), tag("td", which)) for what, which in pairs]
    return tag("table", tag("tbody", rows))


def bullets(items: Iterable[object]) -> Html:
    """A list."""
    return tag("ul", [tag("li", item) for item in items])


def paragraphs(text: str) -> Html:
    """Text as it was typed: a paragraph for every line that is not empty."""
    return join([tag("p", line) for line in text.split("\n") if line.strip()])
