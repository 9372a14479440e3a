"""Prerequisites of the shipped backends on this machine: which are present, and how to install the others."""

import contextlib
import logging
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from ..errors import NoEngine
from ..images.reference import SHIPPED_IMAGES, image_reference
from .bpf import LIBRARY, PACKAGE, load_library

LOG = logging.getLogger(__name__)

CHECK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """One program, library, kernel feature or image that a backend needs or can use."""

    backend: str
    name: str
    found: bool
    detail: str
    """Its version, or what to do if it is missing."""
    required: bool = True
    """Whether the backend cannot start any sandbox without it."""


def docker_prerequisites() -> list[Prerequisite]:
    """Return the SDK, the engine, its runtimes and the images."""

    def part(name: str, found: bool, detail: str, required: bool = False) -> Prerequisite:
        return Prerequisite("docker", name, found, detail, required)

    try:
        import docker
    except ImportError:
        return [part("SDK", False, 'pip install "turnwise[sandbox]"', True)]
    parts = [part("SDK", True, docker.__version__, True)]
    try:
        client = docker.APIClient(timeout=CHECK_TIMEOUT_S, **docker.utils.kwargs_from_env())
        with contextlib.closing(client):
            info = client.info()
            version = f"{info['ServerVersion']}, cgroup v{info.get('CgroupVersion', 1)}"
            parts.append(part("engine", True, version, True))
            runtimes = sorted(info.get("Runtimes") or {})
            gvisor = "runsc" in runtimes
            parts.append(part("runtimes", True, ", ".join(runtimes)))
            install_gvisor = "optional: install runsc and add it to the runtimes of dockerd"
            parts.append(part("gVisor", gvisor, "runsc" if gvisor else install_gvisor))
            images = [part(f"image {name}", *_image(client, image_reference(name))) for name in SHIPPED_IMAGES]
            return parts + images
    except Exception as error:
        LOG.info("the Docker engine does not answer", exc_info=True)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return [*parts, part("engine", False, f"install docker.io and start dockerd ({lines[0]})", True)]


def _image(client: Any, name: str) -> tuple[bool, str]:
    import docker.errors

    try:
        info = client.inspect_image(name)
    except docker.errors.ImageNotFound:
        return False, f"turnwise sandbox build {name.removeprefix('turnwise/').partition(':')[0]}"
    return True, f"{info['Id'][:19]}, {info['Size'] >> 20} MiB"


def bubblewrap_prerequisites() -> list[Prerequisite]:
    """Return the program, its namespaces, Python and libseccomp."""
    program = shutil.which("bwrap")
    if program is None:
        return [Prerequisite("local", "bubblewrap", False, "apt-get install bubblewrap")]
    version = _last_line(program, "--version")
    trial = (program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
    error = _last_line(*trial)
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return [
        Prerequisite("local", "bubblewrap", True, version),
        Prerequisite("local", "namespaces", not error, error or "as root" * (os.geteuid() == 0) or "as this user"),
        Prerequisite("local", "python3", python is not None, python or "apt-get install python3"),
        _libseccomp(),
    ]


def _libseccomp() -> Prerequisite:
    try:
        load_library()
    except NoEngine:
        return Prerequisite("local", "libseccomp", False, f"apt-get install {PACKAGE}")
    return Prerequisite("local", "libseccomp", True, LIBRARY)


def _last_line(*command: str) -> str:
    """Return the last line that a program prints; empty if it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else ""
