"""Every page of the populated store is valid HTML, with unique ids, labels, and no interactive element in another."""

from collections import Counter
from xml.etree.ElementTree import Element

import html5lib
import pytest
from starlette.testclient import TestClient
from turnwise.tests.console.viewer.browser.test_chromium import PATHS

MORE = ("/trajectories/a-0", "/groups/b", "/groups/failed", "/runs/s", "/search", "/compare", "/nothing")
INTERACTIVE = {"a", "button", "input", "select", "summary", "textarea"}
FIELDS = {"input", "select", "textarea"}


@pytest.mark.parametrize("path", [*PATHS, *MORE])
def test_a_page_is_valid(client: TestClient, path: str) -> None:
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(client.get(path).text)
    ids = Counter(one.get("id") for one in page.iter() if one.get("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    assert nested(page, False) == []
    named = {one.get("for") for one in page.iter("label")}
    assert [field.attrib for field in unlabeled(page, False) if field.get("id") not in named] == []
    assert [one.attrib for one in page.iter("img") if one.get("alt") is None] == []
    assert len(list(page.iter("h1"))) == 1


def nested(element: Element, inside: bool) -> list[dict[str, str]]:
    """Return the interactive elements that are inside of another one."""
    is_interactive = element.tag in INTERACTIVE
    found = [dict(element.attrib)] if is_interactive and inside else []
    return found + [one for child in element for one in nested(child, inside or is_interactive)]


def unlabeled(element: Element, inside: bool) -> list[Element]:
    """Return the fields of forms that have no label around them, and no other name."""
    has_name = inside or element.tag == "label" or element.get("aria-label") or element.get("type") == "hidden"
    found = [element] if element.tag in FIELDS and not has_name else []
    return found + [one for child in element for one in unlabeled(child, inside or element.tag == "label")]
