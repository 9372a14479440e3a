"""The packages that the checks of a learner need. Standard library only, so that it runs where they are missing."""

import sys
from importlib.util import find_spec

NEEDED = ("peft", "pydantic", "torch", "transformers")
"""The packages that the checks import; each brings the packages that it needs."""


def missing_packages() -> list[str]:
    """Return the packages that the checks need and this interpreter lacks."""
    missing = []
    for name in NEEDED:
        try:
            found = find_spec(name) is not None
        except ImportError:
            found = False
        missing += [] if found else [name]
    return missing


def report_missing(names: list[str]) -> int:
    """Print which packages are missing and how to get them; return the exit status."""
    packages = " ".join(names)
    print(
        f"not installed: {packages}; run `pip install {packages}`. Without a network, run `pip download --dest wheels "
        f"{packages}` on a machine with a network and the same Python, copy the folder, unpack its wheels "
        "(`python -m zipfile -e FILE extra`), and add `extra` to PYTHONPATH",
        file=sys.stderr,
    )
    return 1
