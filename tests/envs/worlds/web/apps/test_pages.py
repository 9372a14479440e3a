"""The pages of the apps are reproducible, accessible, and safe against user input."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from turnwise.envs.worlds.web.apps.tasks import SITES, TEMPLATES, draw
from turnwise.envs.worlds.web.apps.tasks.template import (
    Act,
    answer,
    button,
    choose,
    fill,
    link,
    log_in,
    radio,
    search_for,
)
from turnwise.envs.worlds.web.apps.worlds import shop as world_shop
from turnwise.envs.worlds.web.apps.worlds import tracker as world_tracker
from turnwise.envs.worlds.web.apps.worlds import wiki as world_wiki
from turnwise.tests.envs.worlds.web.apps.browser import Browser
from turnwise.tests.envs.worlds.web.apps.elements import Document
from turnwise.tests.envs.worlds.web.apps.running import Served

WORLDS = {"shop": world_shop.world, "tracker": world_tracker.world, "wiki": world_wiki.world}
HOSTILE = "<script>alert('&amp;')</script>\" onload=\"x"


@contextmanager
def opened(sites: dict[str, Served], site: str, path: str = "/") -> Iterator[Browser]:
    with closing(Browser(sites[site].begin(WORLDS[site](5)), path)) as browser:
        yield browser


def user_of(site: str, number: int = 0) -> dict[str, str]:
    return dict(WORLDS[site](5)["tables"]["users"][number])


def message(browser: Browser, role: str) -> str:
    return " ".join(each.text for each in browser.page.all if each.attributes.get("role") == role)


@pytest.mark.parametrize("site", SITES)
def test_two_runs_of_a_seed_give_the_same_pages(site: str, sites: dict[str, Served]) -> None:
    for name in [name for name in TEMPLATES if name.startswith(site)][::4]:
        task = draw(name, 11)
        (_, first), (_, again) = (sites[site].play(task, task.oracle) for _ in range(2))
        assert first.pages == again.pages
        assert len(first.pages) > 1


@pytest.mark.parametrize("name", list(TEMPLATES)[::2])
def test_every_control_has_a_unique_name(name: str, sites: dict[str, Served]) -> None:
    task = draw(name, 3)
    _, browser = sites[task.site].play(task, task.oracle)
    for text in browser.pages:
        page = Document(text.partition("\n")[2])
        names = page.names()
        assert all(called for _, called in names)
        double = {each for each in names if names.count(each) > 1}
        assert not double, (text.partition("\n")[0], double)
        assert len(names) <= 90
        assert page.first("h1").text
        assert not [each for each in page.all if each.tag == "script" or "onclick" in each.attributes]


def kinds_of_pages(browser: Browser) -> set[str]:
    """Return the paths of all linked pages, with every number replaced by 0."""
    found, seen, todo = set[str](), set[str](), ["/"]
    while todo:
        path = todo.pop()
        kind = re.sub(r"\d+", "0", path.partition("?")[0])
        if path in seen or (kind in found and len(seen) > 200):
            continue
        seen.add(path)
        found.add(kind)
        browser.get(path)
        assert browser.statuses[-1] == 200, path
        links = [each.attributes["href"] for role, _, each in browser.page.controls() if role == "link"]
        fresh = {re.sub(r"\d+", "0", href.partition("?")[0]) for href in links} - found
        todo += [href for href in links if re.sub(r"\d+", "0", href.partition("?")[0]) in fresh and href not in seen]
    return found


@pytest.mark.parametrize("site", SITES)
def test_every_link_leads_somewhere(site: str, sites: dict[str, Served]) -> None:
    with opened(sites, site) as browser:
        browser.do(*log_in(user_of(site)))
        assert len(kinds_of_pages(browser)) >= 12


@pytest.mark.parametrize("site", SITES)
def test_a_wrong_password_is_reported_and_does_not_log_in(site: str, sites: dict[str, Served]) -> None:
    user = user_of(site)
    with opened(sites, site) as browser:
        browser.do(*log_in({**user, "password": "wrong"}))
        assert message(browser, "alert") == "The user name or password is incorrect."
        assert browser.page.first("h1").text == "Log in"
        browser.do(fill("Password", user["password"]), button("Log in"))
        assert message(browser, "status") == f"Welcome, {user['name']}."
        browser.do(button("Log out"), link("Log in"))
        assert message(browser, "status") == ""


def test_user_input_is_displayed_as_text(sites: dict[str, Served]) -> None:
    with opened(sites, "shop") as browser:
        browser.do(*log_in(user_of("shop")))
        product = WORLDS["shop"](5)["tables"]["products"][0]["name"]
        browser.do(link("Search"), search_for(product), button("Search"), link(product), link("Write a review"))
        if "already" not in browser.page.root.text:
            browser.do(radio("5 stars"), fill("Title", HOSTILE), fill("Text", HOSTILE), button("Save review"))
        shown = [each.text for each in browser.page.all if each.tag == "article" and HOSTILE in each.text]
        assert shown
        assert "<script>" not in browser.pages[-1]
        browser.do(link("Search"), search_for(HOSTILE), button("Search"))
        assert browser.find(Act("fill", "searchbox", "Search for")).value == HOSTILE


def test_multi_line_text_round_trips(sites: dict[str, Served]) -> None:
    with opened(sites, "tracker") as browser:
        project = WORLDS["tracker"](5)["tables"]["projects"][0]["name"]
        browser.do(*log_in(user_of("tracker")), link(project), link("New issue"))
        text = "one\n\ntwo </textarea> three\n  four"
        browser.do(fill("Title", "Lines"), fill("Description", text), button("Save issue"), link("Edit issue"))
        assert browser.find(Act("fill", "textbox", "Description")).value == text


def test_errors_are_displayed_on_their_form(sites: dict[str, Served]) -> None:
    with opened(sites, "tracker") as browser:
        project = WORLDS["tracker"](5)["tables"]["projects"][0]["name"]
        browser.do(*log_in(user_of("tracker")), link(project), link("New issue"))
        browser.do(fill("Description", "kept"), choose("Priority", "high"), button("Save issue"))
        assert message(browser, "alert") == "The title must not be empty."
        assert browser.find(Act("fill", "textbox", "Description")).value == "kept"
    products = WORLDS["shop"](5)["tables"]["products"]
    empty = next(row for row in products if not row["stock"] and not row["colors"] and not row["sizes"])
    with opened(sites, "shop", f"/product/{empty['id']}") as browser:
        browser.do(button("Add to cart"))
        assert browser.page.first("h1").text == "Log in"
        browser.get("/")
        browser.do(*log_in(user_of("shop")), link("Search"), search_for(empty["name"]), button("Search"))
        browser.do(link(empty["name"]), button("Add to cart"))
        assert message(browser, "alert") == "This product is out of stock."


def test_data_of_other_users_is_not_accessible(sites: dict[str, Served]) -> None:
    tables = WORLDS["shop"](5)["tables"]
    user = tables["users"][0]
    order = next(row for row in tables["orders"] if row["user_id"] != user["id"])
    address = next(row for row in tables["addresses"] if row["user_id"] != user["id"])
    with opened(sites, "shop") as browser:
        browser.do(*log_in(user))
        for path in (f"/orders/{order['id']}", f"/addresses/{address['id']}", f"/addresses/{address['id']}/delete"):
            browser.get(path)
            assert browser.statuses[-1] == 404
            browser.get(path, [])
            assert browser.statuses[-1] == 404
    wiki = WORLDS["wiki"](5)["tables"]
    member = next(row for row in wiki["users"] if row["role"] == "member")
    with opened(sites, "wiki") as browser:
        browser.do(*log_in(member))
        browser.get("/thread/1/pin", [("on", "1")])
        assert browser.statuses[-1] == 403


@pytest.mark.parametrize("site", SITES)
def test_unlinked_paths_get_a_regular_response(site: str, sites: dict[str, Served]) -> None:
    with opened(sites, site) as browser:
        for path in ("/nowhere", "/login/", "/users/999999999", "/%00", "/?page=-1", "/search?page=99999999", "/..%2f"):
            browser.get(path)
            assert browser.statuses[-1] in (200, 404), path
        browser.get("/login?next=//example.com/", [("login", user_of(site)["login"]), ("password", "x")])
        assert browser.statuses[-1] == 200
        browser.get("/login?next=//example.com/", list(user_of(site).items())[1:3])
        assert browser.target == "/"


def test_a_task_with_an_answer_fails_without_one(sites: dict[str, Served]) -> None:
    task = draw("wiki/fact", 0)
    acts = task.oracle[:-1]
    assert not sites["wiki"].play(task, acts)[0]
    assert task.answer is not None
    assert sites["wiki"].play(task, (*acts, answer(f" {task.answer.upper()}. ")))[0]
