"""``turnwise envs new``: write an installable package with a short environment, its test and its entry point.

A tiny model learns the environment in a few updates. It lists its valid actions and its words, and passes ``check``.
"""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from ..errors import EnvError

ENVIRONMENT = '''\
"""Name the color on display, four times in a row. Replace this with your own environment."""

from turnwise.envs import FreeText, TurnEnv

COLORS = ("red", "green", "blue", "white")


class CLASS(TurnEnv):
    action_space = observation_space = FreeText(words=("say", "end", *COLORS))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        test = (options or {}).get("split") == "test"
        self.left = self.np_random.integers(4, size=4).tolist()
        self.left[-1] ^= (sum(self.left) + test) % 2  # even sums are train, odd ones test: the splits share no instance
        self.right = 0
        return COLORS[self.left[0]], {"state_key": "4 left"}

    def step(self, action):
        hit = bool(self.left) and action == f"say {COLORS[self.left.pop(0)]}"
        self.right += hit
        info = {"action_valid": (action, 1.0) in self.valid_actions(), "state_key": f"{len(self.left)} left"}
        if not self.left:
            return "end", hit / 4, True, False, {**info, "success": self.right == 4}
        return COLORS[self.left[0]], hit / 4, False, False, info

    def valid_actions(self):
        return [(f"say {color}", 1.0) for color in COLORS]

    def vocabulary(self):
        return ["say", "end", *COLORS]
'''

REGISTRATION = '''\
"""PACKAGE: environments for turnwise. Importing this registers them; the entry point in pyproject.toml names it."""

import gymnasium

gymnasium.register("PACKAGE/NAME-v0", entry_point="PACKAGE.env:CLASS")
'''

TEST = '''\
"""The environment keeps its contract and can be solved."""

from turnwise.envs import make
from turnwise.envs.authoring.check import check


def test_it_holds_to_its_contract():
    report = check("PACKAGE:PACKAGE/NAME-v0")
    assert report.ok, "\\n".join(report.lines())


def test_saying_what_is_shown_succeeds():
    env = make("PACKAGE:PACKAGE/NAME-v0")
    observation, info = env.reset(seed=0, options={"split": "test"})
    total, terminated = 0.0, False
    while not terminated:
        observation, reward, terminated, _, info = env.step(f"say {observation}")
        total += reward
    assert total == 1.0
    assert info["success"]
'''

PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "DISTRIBUTION"
version = "0.1.0"
description = "Environments for turnwise"
requires-python = ">=3.11"
dependencies = ["turnwise"]

[project.entry-points."turnwise.envs"]
PACKAGE = "PACKAGE"

[tool.setuptools]
packages = ["PACKAGE"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

README = """\
# DISTRIBUTION

    pip install -e .
    turnwise envs check PACKAGE/NAME-v0
    turnwise envs play PACKAGE/NAME-v0

The environment is `PACKAGE/env.py`.
"""


class ScaffoldError(EnvError):
    """The package cannot be written: the name is invalid, or its folder exists."""


def package_name(name: str) -> str:
    """Return the import name for a distribution name.

    Raises:
        ScaffoldError: the name is not valid for a package, or hides a package that can be imported.
    """
    package = name.replace("-", "_").lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", package) or keyword.iskeyword(package):
        raise ScaffoldError(
            f"{name!r} is not a valid package name; use letters, digits, dashes and underscores, a letter first"
        )
    if package in sys.stdlib_module_names or package == "turnwise" or find_spec(package) is not None:
        raise ScaffoldError(f"a package {package!r} can already be imported here; choose another name than {name!r}")
    return package


def new(name: str, folder: Path) -> Path:
    """Write the package ``folder/name`` and return its path. The id of its environment is ``package/Name-v0``.

    Raises:
        ScaffoldError: the name is invalid, or ``folder/name`` exists.
    """
    package = package_name(name)
    root = folder / name
    if root.exists():
        raise ScaffoldError(f"{root} exists already; choose another name or remove it")
    title = "".join(part.capitalize() for part in package.split("_"))
    files = {
        f"{package}/env.py": ENVIRONMENT,
        f"{package}/__init__.py": REGISTRATION,
        f"tests/test_{package}.py": TEST,
        "pyproject.toml": PROJECT,
        "README.md": README,
    }
    for path, text in files.items():
        for placeholder, value in (
            ("CLASS", f"{title}Env"),
            ("NAME", title),
            ("PACKAGE", package),
            ("DISTRIBUTION", name.lower()),
        ):
            text = text.replace(placeholder, value)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def env_id(name: str) -> str:
    """Return the id of the environment that ``new`` writes."""
    package = name.replace("-", "_").lower()
    return f"{package}/{''.join(part.capitalize() for part in package.split('_'))}-v0"
