"""``turnwise envs new``: write an installable package with a short environment, its test and its entry point.

Each environment passes ``check`` and its own tests. ``new.toml`` has the files of every package, and ``new_KIND.toml``
those of a kind. To add a kind, write that file and add the kind to ``KINDS``.
"""

import keyword
import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

from ..errors import EnvError
from ..options import one_of

COMMON = Path(__file__).with_suffix(".toml")
KINDS = {
    "turns": "a game of several turns, which a tiny model learns in a few updates",
    "dataset": "rows of a file and a rubric of reward functions",
    "sandbox": "files and commands in a sandbox",
    "site": "a web site in a browser, which needs Docker",
}
"""The kinds of environments, with a line on each."""


class ScaffoldError(EnvError):
    """The package cannot be written: the name is invalid, or its folder exists."""


def package_name(name: str) -> str:
    """Return the import name for a distribution name.

    Raises:
        ScaffoldError: the name is not valid for a package, or hides a package that can be imported.
    """
    package = name.replace("-", "_").lower()
    if not re.fullmatch(r"[a-z]([a-z0-9_]*[a-z0-9])?", package) or keyword.iskeyword(package):
        raise ScaffoldError(
            f"{name!r} is not a valid package name; use letters, digits, dashes and underscores, a letter first "
            "and no dash or underscore last"
        )
    if package in sys.stdlib_module_names or package == "turnwise" or find_spec(package) is not None:
        raise ScaffoldError(f"a package {package!r} can already be imported here; choose another name than {name!r}")
    return package


def new(name: str, folder: Path, kind: str = "turns") -> Path:
    """Write the package ``folder/name`` and return its path. The id of its environment is ``package/Name-v0``.

    Raises:
        ScaffoldError: the name is invalid, or ``folder/name`` exists.
        ValueError: ``kind`` is none of ``KINDS``.
    """
    files = [COMMON, COMMON.with_name(f"new_{one_of('kind', kind, KINDS)}.toml")]
    package = package_name(name)
    root = folder / name
    if root.exists():
        raise ScaffoldError(f"{root} exists already; choose another name or remove it")
    names = {
        "CLASS": f"{_title(package)}Env",
        "NAME": _title(package),
        "PACKAGE": package,
        "DISTRIBUTION": name.lower(),
    }
    for path, text in (item for file in files for item in tomllib.loads(file.read_text()).items()):
        for placeholder, value in names.items():
            path, text = path.replace(placeholder, value), text.replace(placeholder, value)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def env_id(name: str) -> str:
    """Return the id of the environment that ``new`` writes."""
    package = name.replace("-", "_").lower()
    return f"{package}/{_title(package)}-v0"


def _title(package: str) -> str:
    return "".join(part.capitalize() for part in package.split("_"))
