"""Use the page of an episode in a real Chromium and print what is wrong, as JSON: runs in a sandbox image.

Called as ``python walk_episode.py ADDRESS PATH``: tokens under the pointer, a click on a curve, playback, quotations,
and the keys to the other members.
"""

import json
import sys

from playwright.sync_api import Page, TimeoutError, sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
WAIT_MS = 5_000
SELECT_SECOND = """
const text = document.querySelector('#turn-1 [data-field=observation]').firstChild;
const at = text.data.indexOf('long page', text.data.indexOf('long page') + 1);
getSelection().setBaseAndExtent(text, at, text, at + 9);
"""


def tokens(page: Page, path: str) -> list[str]:
    """Return what is wrong with the view of exact tokens."""
    page.goto(f"{path}?view=tokens")
    page.locator(".body.strip i").last.hover()
    wrong = [] if seen(page, "#token-tip:not([hidden])") else ["no values of a token under the pointer"]
    if "position" not in page.locator("#token-tip").inner_text():
        wrong.append("no position of a token")
    page.locator("[data-shade-by=mask]").click()
    if page.locator("#strip[data-shade=mask]").count() != 1 or "shade=mask" not in page.url:
        wrong.append("no other shade after a click")
    page.locator(".of-mask .token-curve").click()
    if not seen(page, "#token") or "token=" not in page.url:
        wrong.append("no token after a click on the curve")
    page.reload()
    return wrong if seen(page, "#token") else [*wrong, "the address lost the token"]


def playback(page: Page, path: str) -> list[str]:
    """Return what is wrong with playing an episode."""
    page.goto(f"{path}?speed=32")
    wrong = [] if seen(page, "#playback:not([hidden])") else ["no controls of the playback"]
    page.keyboard.press(" ")
    if not seen(page, "#turn-1.playing"):
        wrong.append("the playback did not reach the second turn")
    if not seen(page, "#play[aria-pressed=false]"):
        wrong.append("the playback did not end")
    if "at=" not in page.url:
        wrong.append("the address lacks the position")
    page.goto(f"{path}?turn=0&speed=32&play=1")
    return wrong if seen(page, "#turn-1.playing") else [*wrong, "a page of one turn did not lead to the next one"]


def quotation(page: Page, path: str) -> list[str]:
    """Return what is wrong with a link to a selected text: here the second one of its kind."""
    page.goto(path)
    page.evaluate(SELECT_SECOND)
    if not seen(page, "#quote-button:not([hidden])"):
        return ["no button for a selected text"]
    page.keyboard.press("y")
    page.wait_for_timeout(200)
    link = page.url if "quote=" in page.url else page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(link)
    before = page.evaluate("document.querySelector('#quote')?.previousSibling.data")
    shown = page.evaluate("document.querySelector('#quote')?.getBoundingClientRect().top")
    wrong = [] if before == "a long page a " else [f"the mark is after {before!r}"]
    return wrong if shown is not None and 0 < shown < 800 else [*wrong, f"the mark is at {shown}"]


def members(page: Page, path: str) -> list[str]:
    """Return whether the keys lead to the next member and back, and to the members next to one another."""
    page.goto(path)
    wrong = []
    for key, end in (("l", "a-1"), ("h", "a-0")):
        page.keyboard.press(key)
        try:
            page.wait_for_url(f"**/trajectories/{end}", timeout=WAIT_MS)
        except TimeoutError:
            wrong.append(f"key {key} leads to {page.url}")
    page.locator("a[title='next to member 1']").click()
    return wrong if seen(page, ".parting") else [*wrong, "the members do not part"]


def seen(page: Page, selector: str) -> bool:
    """Return whether an element appears."""
    try:
        page.wait_for_selector(selector, timeout=WAIT_MS, state="attached")
    except TimeoutError:
        return False
    return True


if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        address, path = sys.argv[1:]
        context = browser.new_context(viewport={"width": 1360, "height": 800}, reduced_motion="reduce")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        wrong: list[str] = []
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for use in (tokens, playback, quotation, members):
            wrong += use(page, address + path)
        browser.close()
    print(json.dumps(wrong))
