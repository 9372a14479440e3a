"""Print what axe-core finds serious or critical on pages, in both themes, as JSON. ``AXE`` is set before: its script.

Called as ``python walk_accessibility.py ADDRESS PATH...``; runs in a sandbox image, without turnwise.
"""

import json
import sys

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
SETTLE_MS = 150

if __name__ == "__main__":
    address, *paths = sys.argv[1:]
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme in ("light", "dark"):
            context = browser.new_context(bypass_csp=True, color_scheme=theme)
            page = context.new_page()
            for path in paths:
                page.goto(address + path)
                page.wait_for_timeout(SETTLE_MS)
                page.evaluate(globals()["AXE"])
                for one in page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]:
                    if one["impact"] in ("serious", "critical"):
                        places = [node["target"] for node in one["nodes"][:3]]
                        found.append(f"{theme} {path}: {one['id']}: {one['help']} {places}")
        browser.close()
    print(json.dumps(found))
