"""Walk through pages in a real Chromium and print what is wrong, as JSON: runs in a sandbox image, without turnwise.

Called as ``python walk.py few|all ADDRESS RUN PATH...``. Wrong is a message in the console, a violation of the content
security policy, an error of a script, a page wider than the window, and a key without its effect.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
WINDOWS = {"few": [("light", 1360), ("dark", 400)]}
WINDOWS["all"] = [(theme, width) for theme in ("light", "dark") for width in (1360, 800, 400)]
"""Themes and widths."""
WATCH = """
const report = (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
addEventListener("securitypolicyviolation", report);
"""
SETTLE_MS = 120
FILE = "/tmp/episode.html"  # noqa: S108 - in the container
DOCUMENT = "/trajectories/a-0/download/html"


def walk(browser: Browser, windows: str, address: str, paths: list[str]) -> list[str]:
    """Return what is wrong with the pages, in each of the windows."""
    problems: list[str] = []
    for theme, width in WINDOWS[windows]:
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)
        page.add_init_script(WATCH)
        here: list[str] = []
        page.on("console", lambda message, seen=here: seen.append(message.text))
        page.on("pageerror", lambda error, seen=here: seen.append(str(error)))
        for path in paths:
            answer = page.goto(address + path)
            page.wait_for_timeout(SETTLE_MS)
            here += faults(page, answer, width)
            problems += [f"{theme} {width} {path}: {one}" for one in here]
            here.clear()
        page.close()
    return problems


def faults(page: Page, answer: Any, width: int) -> list[str]:
    """Return what is wrong with the page that is shown."""
    found = []
    if answer is None or answer.status != 200:
        found.append(f"status {answer and answer.status}")
    if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
        found.append(f"{wide} pixels wide")
    if page.locator(".plot").count():
        try:
            page.locator(".plot svg path").first.wait_for(state="attached", timeout=10_000)
        except TimeoutError:
            found.append("a chart without a curve")
    return found


def pointer(browser: Browser, address: str, run: str) -> list[str]:
    """Return which moves of the pointer, and which keys, lack their effect on a chart of a run."""
    page = browser.new_page(viewport={"width": 1360, "height": 800})
    page.goto(address + run)
    page.wait_for_selector(".plot svg path", state="attached")
    box = page.locator(".plot svg").first.bounding_box()
    assert box is not None
    middle, height = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    wrong = []
    page.mouse.move(middle, height)
    if not page.locator(".tip:not([hidden])").count():
        wrong.append("no values under the pointer")
    page.mouse.down()
    page.mouse.move(middle + 90, height, steps=3)
    page.mouse.up()
    if page.locator("#reset[disabled]").count() or "from=" not in page.url:
        wrong.append("no zoom after a drag")
    page.locator("#reset").click()
    page.mouse.click(middle, height)
    if not leads_to(page, "**/updates/*"):
        wrong.append("no update after a click")
    page.goto(address + run)
    page.wait_for_selector(".plot svg path", state="attached")
    page.locator(".plot svg").first.focus()
    page.keyboard.press("ArrowLeft")
    if "update" not in (page.locator(".plot svg").first.get_attribute("aria-valuetext") or ""):
        wrong.append("no value after an arrow")
    page.keyboard.press("Enter")
    if not leads_to(page, "**/updates/*"):
        wrong.append("no update after Enter")
    page.goto(address + run)
    page.locator(".fold[data-section=learning] summary").click()
    page.wait_for_timeout(SETTLE_MS)
    if "open=returns" not in page.url:
        wrong.append("no URL that keeps the folded sections")
    page.reload()
    page.wait_for_selector(".fold[data-section=learning]:not([open]):not([hidden])", timeout=3_000)
    page.close()
    return wrong


def leads_to(page: Page, address: str) -> bool:
    """Return whether the page becomes the one of an address, and is loaded."""
    try:
        page.wait_for_url(address, timeout=5_000)
    except TimeoutError:
        return False
    return True


def keys(browser: Browser, address: str, run: str) -> list[str]:
    """Return which keys lack their effect on the pages of a run: from its list of groups to a group, and back."""
    page = browser.new_page(viewport={"width": 1360, "height": 800})
    page.goto(f"{address}{run}/groups")
    steps = [
        ("?", "dialog[open]"),
        ("Escape", "dialog:not([open])"),
        ("j", "tr.current"),
        ("Enter", ".fate"),
    ]
    steps += [("u", "a[aria-current=page]"), ("/", "#find:focus"), ("Escape", "body"), ("t", "html[data-theme]")]
    wrong = []
    for key, effect in steps:
        page.keyboard.press(key)
        try:
            page.wait_for_selector(effect, timeout=3_000, state="attached")
        except Exception as error:
            wrong.append(f"key {key}: {type(error).__name__}")
        page.wait_for_timeout(SETTLE_MS)
    page.close()
    return wrong


def document(browser: Browser, address: str, path: str) -> list[str]:
    """Return what is wrong with a downloaded page that is opened as a file, without a network."""
    with urlopen(address + path, timeout=20) as answer:  # noqa: S310 - the viewer's own address
        Path(FILE).write_bytes(answer.read())
    context = browser.new_context(offline=True, viewport={"width": 800, "height": 800})
    context.add_init_script(WATCH)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"the file: {message.text}"))
    page.on("request", lambda asked: wrong.append(asked.url[:80]) if asked.url.startswith("http") else None)
    page.goto(f"file://{FILE}")
    page.wait_for_timeout(SETTLE_MS)
    if not page.locator("#turn-0 .action").count() or not page.locator("img[src^='data:image/png']").count():
        wrong.append("the file lacks a turn or a picture")
    if page.evaluate("getComputedStyle(document.querySelector('.action')).borderLeftWidth") != "2px":
        wrong.append("the file lacks its style")
    context.close()
    return wrong


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        windows, address, run, *paths = sys.argv[1:]
        wrong = walk(chromium, windows, address, paths) + keys(chromium, address, run) + pointer(chromium, address, run)
        wrong += document(chromium, address, DOCUMENT)
        chromium.close()
    print(json.dumps(wrong))
