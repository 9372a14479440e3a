"""The tests' own browser: features that no template uses."""

from contextlib import closing

import pytest
from turnwise.envs.worlds.web.apps.tasks.template import Act, fill, link, search_for
from turnwise.envs.worlds.web.apps.worlds import shop as world_shop
from turnwise.tests.envs.worlds.web.apps.browser import Browser
from turnwise.tests.envs.worlds.web.apps.elements import Document
from turnwise.tests.envs.worlds.web.apps.running import Served

TWO = "<ul><li>Red <a href='/1'>Open</a></li><li>Blue <a href='/2'>Open</a></li></ul>"


def test_enter_submits_the_form_of_a_field(sites: dict[str, Served]) -> None:
    world = world_shop.world(1)
    name = world["tables"]["products"][0]["name"]
    with closing(Browser(sites["shop"].begin(world))) as browser:
        browser.do(search_for(name), Act("press", "searchbox", "Search for", "Enter"), link(name))
        assert browser.page.first("h1").text == name


def test_nth_selects_among_equal_elements() -> None:
    browser = Browser.__new__(Browser)
    browser.page, browser.target = Document(TWO), "/"
    assert browser.find(Act("click", "link", "Open", nth=1)).attributes["href"] == "/2"
    with pytest.raises(AssertionError, match="matches 2 elements"):
        browser.find(Act("click", "link", "Open"))
    with pytest.raises(AssertionError, match="is not on"):
        browser.find(fill("Open", "x"))
