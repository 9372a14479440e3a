"""What the backends need of this machine, found or missing, and what to do about it."""

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

from .docker import OWN_IMAGES, reference

ENGINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SandboxPart:
    """One thing a backend needs or can use."""

    backend: str
    name: str
    found: bool
    detail: str
    """Its version, or what to do."""


def look() -> list[SandboxPart]:
    """Every part of every backend."""
    return [*_docker(), *_local()]


def _docker() -> list[SandboxPart]:
    def part(name: str, found: bool, detail: str) -> SandboxPart:
        return SandboxPart("docker", name, found, detail)

    try:
        import docker
    except ImportError:
        return [part("SDK", False, 'pip install "turnwise[sandbox]"')]
    parts = [part("SDK", True, docker.__version__)]
    try:
        client = docker.APIClient(timeout=ENGINE_SECONDS, **docker.utils.kwargs_from_env())
        with contextlib.closing(client):
            about = client.info()
            parts.append(part("engine", True, f"{about['ServerVersion']}, cgroup v{about.get('CgroupVersion', 1)}"))
            runtimes = sorted(about.get("Runtimes") or {})
            gvisor = "runsc" in runtimes
            parts.append(part("runtimes", True, ", ".join(runtimes)))
            parts.append(
                part("gVisor", gvisor, "runsc" if gvisor else "optional: install runsc and name it to dockerd")
            )
            return parts + [part(f"image {name}", *_image(client, reference(name))) for name in OWN_IMAGES]
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return [*parts, part("engine", False, f"install docker.io and start dockerd ({said[0]})")]


def _image(client: Any, name: str) -> tuple[bool, str]:
    import docker.errors

    try:
        about = client.inspect_image(name)
    except docker.errors.ImageNotFound:
        return False, f"turnwise sandbox build {name.removeprefix('turnwise/').partition(':')[0]}"
    return True, f"{about['Id'][:19]}, {about['Size'] >> 20} MiB"


def _local() -> list[SandboxPart]:
    program = shutil.which("bwrap")
    if program is None:
        return [SandboxPart("local", "bubblewrap", False, "apt-get install bubblewrap")]
    version = _said(program, "--version")
    trial = (program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
    said = _said(*trial)
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return [
        SandboxPart("local", "bubblewrap", True, version),
        SandboxPart("local", "namespaces", not said, said or "as root" * (os.geteuid() == 0) or "as this user"),
        SandboxPart("local", "python3", python is not None, python or "apt-get install python3"),
    ]


def _said(*command: str) -> str:
    """The last line that a program prints, in a second."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ENGINE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else ""
