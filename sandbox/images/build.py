"""The images of turnwise, built where they are to run.

Each is a Dockerfile on ``ARG BASE``. The base is a stock Debian from the registry where one is reachable, and otherwise
one that debootstrap makes on this machine (root, half a minute). An image remembers the recipe it was built from, so
building again does nothing unless the Dockerfile, its packages or the base changed. Python packages
(``requirements.txt``) are fetched by this machine's pip, which may know an index that a build does not.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..backends.docker import OWN_IMAGES, reference
from ..errors import NoEngine, SandboxError

HERE = Path(__file__).parent
SUITE = "bookworm"
STOCK = f"debian:{SUITE}-slim"
OWN_BASE = f"turnwise/base:{SUITE}"
RECIPE = "turnwise.recipe"
PULL_SECONDS = 120
BUILD_SECONDS = 1800
DEBOOTSTRAP_SECONDS = 900
WHEEL_SECONDS = 600
PYTHON = "3.11"
"""Of the suite."""

Report = Callable[[str], None]


class BuildFailed(SandboxError):
    """An image could not be built; the text ends with what the build said last."""


def build(name: str, report: Report, *, base: str | None = None, again: bool = False) -> str:
    """Build one image and give its digest; ``report`` gets a line of progress now and then. ``base`` is another image
    to build on; ``again`` builds although nothing changed.

    Raises:
        BuildFailed: a step of the build failed, or there is no image of that name.
        NoEngine: there is no Docker engine.
    """
    if name not in OWN_IMAGES:
        raise BuildFailed(f"there is no image {name!r}: there are {', '.join(OWN_IMAGES)}")
    client = _client()
    root = base or _base(client, report)
    parts = [file.read_bytes() for file in sorted((HERE / name).iterdir()) if file.is_file()]
    recipe = hashlib.sha256(b"".join(parts) + _id(client, root).encode()).hexdigest()
    tag = reference(name)
    if not again and _label(client, tag) == recipe:
        report(f"{tag} is up to date")
        return _id(client, tag)
    report(f"building {tag} on {root}")
    with tempfile.TemporaryDirectory(prefix="tw-image-") as context:
        shutil.copytree(HERE / name, context, dirs_exist_ok=True)
        _fetch_wheels(Path(context), report)
        _run_build(client, context, tag, root, recipe, report)
    return _id(client, tag)


def _run_build(client: Any, context: str, tag: str, root: str, recipe: str, report: Report) -> None:
    said: list[str] = []
    for event in client.build(
        path=context,
        tag=tag,
        buildargs={"BASE": root},
        labels={RECIPE: recipe},
        rm=True,
        forcerm=True,
        decode=True,
        network_mode="host",
    ):
        if "error" in event:
            raise BuildFailed(f"{tag} could not be built: {event['error'].strip()}\n" + "\n".join(said[-15:]))
        if line := event.get("stream", "").strip():
            said.append(line)
            if line.startswith("Step") or line.startswith("Setting up"):
                report(f"  {line}")


def _fetch_wheels(context: Path, report: Report) -> None:
    """Put the wheels of ``requirements.txt``, if there is one, into ``wheels/``."""
    if not (context / "requirements.txt").exists():
        return
    report("  fetching its Python packages")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={PYTHON}", "--dest", "wheels", "-r", "requirements.txt"]
    done = subprocess.run(command, cwd=context, capture_output=True, text=True, timeout=WHEEL_SECONDS, check=False)
    if done.returncode:
        raise BuildFailed(f"the packages of the image could not be fetched: {done.stderr.strip()[-800:]}")


def _client() -> Any:
    try:
        import docker
    except ImportError as error:
        raise NoEngine('the Docker SDK is not installed: pip install "turnwise[sandbox]"') from error
    try:
        client = docker.APIClient(timeout=BUILD_SECONDS, **docker.utils.kwargs_from_env())
        client.ping()
    except Exception as error:
        raise NoEngine(f"no Docker engine answers ({error}): install docker.io and start dockerd") from error
    return client


def _id(client: Any, image: str) -> str:
    return str(client.inspect_image(image)["Id"])


def _label(client: Any, image: str) -> str | None:
    import docker.errors

    try:
        return (client.inspect_image(image)["Config"]["Labels"] or {}).get(RECIPE)
    except docker.errors.ImageNotFound:
        return None


def _base(client: Any, report: Report) -> str:
    """The image to build on: one that is here, else pulled, else made."""
    import docker
    import docker.errors

    for here in (STOCK, OWN_BASE):
        try:
            _id(client, here)
        except docker.errors.ImageNotFound:
            continue
        return here
    report(f"pulling {STOCK}")
    try:
        docker.APIClient(timeout=PULL_SECONDS, **docker.utils.kwargs_from_env()).pull(STOCK)
    except Exception as error:
        report(f"  no registry to pull it from ({type(error).__name__})")
        _make_base(client, report)
        return OWN_BASE
    return STOCK


def _make_base(client: Any, report: Report) -> None:
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or os.geteuid() != 0:
        raise BuildFailed(
            f"{STOCK} can be neither pulled nor made here: debootstrap makes it, run by root "
            "(apt-get install debootstrap); or name another image with --base"
        )
    with tempfile.TemporaryDirectory(prefix="tw-base-") as folder:
        report(f"making {OWN_BASE} with debootstrap: half a minute")
        root = Path(folder) / "root"
        done = subprocess.run(
            [program, "--variant=minbase", SUITE, str(root)],
            capture_output=True,
            text=True,
            timeout=DEBOOTSTRAP_SECONDS,
            check=False,
        )
        if done.returncode:
            raise BuildFailed(f"debootstrap failed: {(done.stdout + done.stderr).strip()[-800:]}")
        _add_security(root)
        packed = Path(folder) / "root.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(packed), "."], check=True, timeout=300)  # noqa: S607
        repository, _, tag = OWN_BASE.partition(":")
        client.import_image(str(packed), repository=repository, tag=tag)


def _add_security(root: Path) -> None:
    """debootstrap writes down the main suite only; browsers come from the security suite of the same mirror."""
    sources = root / "etc/apt/sources.list"
    first = sources.read_text().split()
    mirror = first[1].rstrip("/")
    sources.write_text(
        f"deb {mirror} {SUITE} main\ndeb {mirror} {SUITE}-updates main\ndeb {mirror}-security {SUITE}-security main\n"
    )
