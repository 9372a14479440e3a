"""Open pages in a real Chromium and print what it reports, as JSON: runs in a sandbox image, without turnwise.

Called as ``python walk_numbers.py ADDRESS PATH...``.
"""

import json
import sys

from playwright.sync_api import TimeoutError, sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
DRAWN_MS = 10_000

if __name__ == "__main__":
    wrong: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1000, "height": 800})
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        address, *paths = sys.argv[1:]
        for path in paths:
            page.goto(address + path)
            try:
                page.locator(".plot svg path.curve, svg.targets").first.wait_for(state="attached", timeout=DRAWN_MS)
            except TimeoutError:
                wrong.append(f"{path}: nothing is drawn")
        chromium.close()
    print(json.dumps(wrong))
