"""Check the files given, or every file that git tracks: TOML, YAML and JSON parse; no file is large or holds a key."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
SIZE_MAX_KIB = 512
SECRET = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\b(?:sk|ghp|hf)[-_][A-Za-z0-9]{32,}\b")
PARSERS: dict[str, Callable[[str], object]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".yaml": lambda text: list(yaml.safe_load_all(text)),
    ".yml": lambda text: list(yaml.safe_load_all(text)),
}


def problems(path: Path) -> list[str]:
    """Return one line per problem of a file."""
    content = path.read_bytes()
    found = []
    if len(content) > SIZE_MAX_KIB * 1024:
        found.append(f"`{path}` has {len(content) // 1024} KiB; at most {SIZE_MAX_KIB} are allowed")
    if SECRET.search(content):
        found.append(f"`{path}` holds a private key or an access token")
    if parse := PARSERS.get(path.suffix):
        try:
            parse(content.decode())
        except (ValueError, yaml.YAMLError) as error:
            found.append(f"`{path}` does not parse: {error}")
    return found


def main(names: list[str]) -> int:
    """Print the problems; return 1 if there are any."""
    if not names:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
        names = [str(ROOT / name) for name in listed.stdout.split("\0") if name]
    paths = [path for path in map(Path, names) if path.is_file()]
    found = [problem for path in paths for problem in problems(path)]
    print("\n".join(found) or f"{len(paths)} files parse and are small")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
