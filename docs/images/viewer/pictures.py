"""Take the pictures of the viewer's pages, in both themes, next to this file: of a store that you name.

Requires Docker, and the image of `turnwise sandbox build web` for its Chromium. The runs are the oldest ones of the
store that have what a page is about: a training run on text and one with `rollout.screenshots = "all"`.

python docs/images/viewer/pictures.py [--store URL]
"""

import argparse
import io
import json
import subprocess
import sys
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from turnwise.sandbox.images.reference import image_reference

FOLDER = Path(__file__).parent
COLORS = 160
WIDTH, HEIGHT = 1360, 900
CAMERA = f"""
import base64, json, sys
from playwright.sync_api import sync_playwright

address, pages = sys.argv[1], json.loads(sys.argv[2])
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox"])
    for theme in ("light", "dark"):
        page = chromium.new_page(viewport={{"width": {WIDTH}, "height": {HEIGHT}}}, color_scheme=theme)
        for name, path in pages.items():
            page.goto(address + path)
            page.wait_for_timeout(700)
            picture = page.screenshot()
            print(json.dumps([theme, name, base64.b64encode(picture).decode()]), flush=True)
    chromium.close()
"""


@contextmanager
def viewer(store: list[str]) -> Iterator[str]:
    """Start the viewer of a store; yield its address."""
    command = [sys.executable, "-m", "turnwise.console.app", "view", "--port", "0", *store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = "" if server.stdout is None else server.stdout.readline()
            yield next(word for word in line.split() if word.startswith("http://")).rsplit("/", 1)[0]
        finally:
            server.terminate()


class Store:
    """The pages of a store, from the records of the API."""

    def __init__(self, address: str) -> None:
        self.address = address

    def read(self, path: str) -> Any:
        """Return the record of a page."""
        with urllib.request.urlopen(f"{self.address}/api{path}", timeout=60) as answer:  # noqa: S310 - our own server
            return json.load(answer)

    def episodes(self, run: str) -> Iterator[Any]:
        """Yield the episodes of consumed groups whose members differ in success, from the newest."""
        for one in self.read(f"/runs/{quote(run, safe='')}/groups?state=consumed")["groups"]:
            outcomes = {member["success"] for member in one["members"]}
            if outcomes == {True, False}:
                yield from (
                    self.read(f"/trajectories/{quote(member['trajectory'], safe='')}") for member in one["members"]
                )

    def pages(self) -> dict[str, str]:
        """Return the path of each picture, by its name."""
        runs = [one["id"] for one in reversed(self.read("/runs?kind=train")["runs"])]
        text = pictured = None
        for run in runs:
            for episode in self.episodes(run):
                has_pictures = any(turn["pictures"] for turn in episode["turns"])
                if has_pictures and pictured is None and episode["total"] > 2:
                    pictured = episode
                if not has_pictures and text is None and episode["total"] > 3:
                    text = episode
        if text is None or pictured is None:
            sys.exit("the store has no trained group of text or none with screenshots: see docs/guide/viewer.md")
        run, newest = quote(text["run"], safe=""), text["uses"][-1]["update"]
        shown, seen = (quote(one["trajectory"], safe="") for one in (text, pictured))
        return {
            "runs": "/runs",
            "run": f"/runs/{run}",
            "tasks": f"/runs/{run}/tasks",
            "update": f"/runs/{run}/updates/{newest}",
            "groups": f"/runs/{run}/groups",
            "group": f"/groups/{quote(text['group'], safe='')}",
            "failures": f"/runs/{quote(pictured['run'], safe='')}/failures",
            "episode": f"/trajectories/{seen}",
            "tokens": f"/trajectories/{shown}?view=tokens&shade=advantage",
            "replay": f"/trajectories/{shown}/replay",
            "compare": f"/compare?runs={','.join(quote(one, safe='') for one in runs[:2])}",
            "search": "/search?q=login",
            "logs": f"/runs/{run}/logs",
        }


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", help="default: as for every command")
    given = parser.parse_args()
    with viewer(["--store", given.store] if given.store else []) as address:
        pages = Store(address).pages()
        camera = ["docker", "run", "--rm", "-i", "--network", "host", "-e", "PYTHONPATH=/opt/browser"]
        done = subprocess.run(
            [*camera, image_reference("web"), "python3", "-", address, json.dumps(pages)],
            input=CAMERA,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    for line in done.stdout.splitlines():
        theme, name, picture = json.loads(line)
        path = FOLDER / theme / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        Image.open(io.BytesIO(b64decode(picture))).convert("RGB").quantize(COLORS).save(path, optimize=True)
        print(f"{path.relative_to(FOLDER)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
