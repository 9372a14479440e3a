"""Parse HTML into the elements that accept actions, by ARIA role and name.

Stricter than a browser: an unclosed tag, a field without a label and an ambiguous name are failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"br", "hr", "input", "link", "meta"}
ROLES = {"text": "textbox", "password": "textbox", "search": "searchbox", "checkbox": "checkbox", "radio": "radio"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element | str] = []
        self.value = attributes.get("value", "")
        self.checked = "checked" in attributes

    def __iter__(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    @property
    def text(self) -> str:
        text = "".join(child if isinstance(child, str) else f" {child.text} " for child in self.children)
        return " ".join(text.split())

    @property
    def raw(self) -> str:
        return "".join(child if isinstance(child, str) else child.raw for child in self.children)

    @property
    def role(self) -> str | None:
        if self.tag == "input":
            return ROLES.get(self.attributes.get("type", "text"))
        fixed = {"button": "button", "select": "combobox", "textarea": "textbox"}
        return "link" if self.tag == "a" and "href" in self.attributes else fixed.get(self.tag)

    def up(self, *tags: str) -> Element | None:
        node = self.parent
        while node is not None and node.tag not in tags:
            node = node.parent
        return node

    def options(self) -> dict[str, str]:
        return {each.text: each.attributes["value"] for each in self if each.tag == "option"}


class Document(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.node = Element("document", {}, None)
        self.feed(text)
        self.close()
        assert self.node is self.root, f"<{self.node.tag}> is not closed"
        self.all = list(self.root)
        self.labels: dict[str, list[str]] = {}
        for each in self.all:
            if each.tag == "label":
                self.labels.setdefault(each.attributes["for"], []).append(each.text)
            if each.tag == "textarea":
                each.value = each.raw.removeprefix("\n")
            if each.tag == "select":
                options = [option for option in each if option.tag == "option"]
                chosen = [option for option in options if "selected" in option.attributes]
                each.value = (chosen or options)[0].attributes["value"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.node)
        self.node.children.append(element)
        if tag not in VOID:
            self.node = element

    def handle_endtag(self, tag: str) -> None:
        assert self.node.tag == tag, f"</{tag}> closes <{self.node.tag}>"
        assert self.node.parent is not None
        self.node = self.node.parent

    def handle_data(self, data: str) -> None:
        self.node.children.append(data)

    def name(self, element: Element) -> str:
        if element.tag in ("a", "button"):
            return element.text
        labels = self.labels.get(element.attributes["id"], [])
        assert len(labels) == 1, f"{len(labels)} labels for {element.attributes}"
        return labels[0]

    def controls(self) -> list[tuple[str, str, Element]]:
        """Return role, name and element of everything that accepts actions."""
        return [(each.role, self.name(each), each) for each in self.all if each.role]

    def names(self) -> list[tuple[str, str]]:
        return sorted((role, name) for role, name, _ in self.controls())

    def first(self, tag: str) -> Element:
        return next(each for each in self.all if each.tag == tag)
