"""Print the targets on the pictures of an episode that are not drawn at their place, as JSON: runs in a sandbox image.

Called as ``python walk_targets.py ADDRESS COUNT PATH...``. A page has ``COUNT`` targets; each is compared with its
place on the picture, in pixels of the screen, in a wide and in a narrow window.
"""

import json
import sys

from playwright.sync_api import sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
FIND = """
[...document.querySelectorAll('.shot')].flatMap((shot) => {
  const picture = shot.querySelector('img').getBoundingClientRect();
  const svg = shot.querySelector('svg');
  return [...(svg?.querySelectorAll('circle, rect') ?? [])].map((mark) => {
    const drawn = mark.getBoundingClientRect(), box = mark.getBBox(), view = svg.viewBox.baseVal;
    const x = picture.x + 1 + (picture.width - 2) * (box.x - view.x + box.width / 2) / view.width;
    const y = picture.y + 1 + (picture.height - 2) * (box.y - view.y + box.height / 2) / view.height;
    const off = [drawn.x + drawn.width / 2 - x, drawn.y + drawn.height / 2 - y];
    const shape = drawn.width / drawn.height / (box.width / box.height) / (picture.width / picture.height)
      * (view.width / view.height);
    return {off, shape};
  });
})
"""
"""The distance of each mark from its place, and its stretching by more than that of the picture."""

if __name__ == "__main__":
    address, count, *paths = sys.argv[1:]
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in (1280, 420):
            page = browser.new_page(viewport={"width": width, "height": 800})
            for path in paths:
                page.goto(address + path, wait_until="networkidle")
                found = page.evaluate(FIND)
                if len(found) != int(count):
                    wrong.append(f"{path} at {width} px has {len(found)} targets")
                wrong += [
                    f"{path} at {width} px: {one}"
                    for one in found
                    if max(map(abs, one["off"])) > 1.5 or abs(one["shape"] - 1) > 0.1
                ]
        browser.close()
    print(json.dumps(wrong))
