"""The arguments of Chromium, and the program that Playwright starts in its place."""

import subprocess
import sys
from pathlib import Path

from turnwise.envs.worlds.web.driver import launcher
from turnwise.envs.worlds.web.driver.chromium import with_features

STARTED = """
import sys
sys.path.insert(0, sys.argv[1])
import driver.launcher
print(*sorted({"resource", "shutil", "tempfile"} & sys.modules.keys()))
"""


def test_features_join_the_lists_of_playwright() -> None:
    arguments = ["--disable-features=A,B", "--headless", "--enable-features=C"]
    more = {"disable": ("D",), "enable": ("E", "F")}
    assert with_features(arguments, more) == ["--headless", "--disable-features=A,B,D", "--enable-features=C,E,F"]
    assert with_features(["--headless"], {"enable": ("E",)}) == ["--headless", "--enable-features=E"]


def test_the_program_that_starts_with_every_browser_imports_nothing_for_the_launcher() -> None:
    folder = Path(launcher.__file__).parents[1]
    done = subprocess.run([sys.executable, "-IS", "-c", STARTED, folder], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
