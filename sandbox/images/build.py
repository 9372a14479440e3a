"""Build the registered images on the machine where they will run.

The base is a stock Debian image from the registry if one is reachable; otherwise debootstrap makes one (as root, in
about half a minute). A label records the recipe of an image: the files of its folder and the base. An image is built
again only if its recipe changed. Python packages (``requirements.txt``) are downloaded by pip on this machine, because
its configuration may name a package index that a container cannot reach.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import NoEngine, SandboxError
from .reference import image_reference, latest_reference, recipe, recipe_hash, registered

LOG = logging.getLogger(__name__)

SUITE = "bookworm"
STOCK_BASE = f"debian:{SUITE}-slim"
OWN_BASE = f"turnwise/base:{SUITE}"
RECIPE_LABEL = "turnwise.recipe"
PULL_TIMEOUT_S = 120
BUILD_TIMEOUT_S = 1800
DEBOOTSTRAP_TIMEOUT_S = 900
DOWNLOAD_TIMEOUT_S = 600
PACK_TIMEOUT_S = 300
PYTHON = "3.11"
"""Python version of the suite."""

Report = Callable[[str], None]


class BuildFailed(SandboxError):
    """An image could not be built; the text ends with the last output of the build."""


def build(name: str, report: Report, *, base: str | None = None, again: bool = False) -> str:
    """Build one image if its recipe changed, and return its digest; ``latest`` names this image afterwards.

    ``report`` receives lines of progress, ``base`` replaces the base image, ``again`` builds an unchanged recipe too.

    Raises:
        BuildFailed: a step of the build failed, or no image of this name is registered.
        NoEngine: no Docker engine answers.
    """
    if name not in registered():
        raise BuildFailed(f"unknown image {name!r}; the images are {', '.join(registered())}")
    client = _client()
    root = base or _base(client, report)
    files_and_base = hashlib.sha256(f"{recipe_hash(name)} {_id(client, root)}".encode()).hexdigest()
    tag = image_reference(name)
    if not again and _label(client, tag) == files_and_base:
        report(f"{tag} is up to date")
    else:
        report(f"building {tag} on {root}")
        with tempfile.TemporaryDirectory(prefix="tw-image-") as context:
            copy_context(name, Path(context))
            download_wheels(Path(context), report)
            _run_build(client, context, tag, root, files_and_base, report)
    repository, _, latest = latest_reference(name).partition(":")
    client.tag(tag, repository, latest)
    return _id(client, tag)


def copy_context(name: str, context: Path) -> None:
    """Copy the files of an image into the folder of its build, readable by every user of the image."""
    for path, source in recipe(name).files().items():
        target = context / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for folder in (one for one in context.rglob("*") if one.is_dir()):
        folder.chmod(0o755)


def _run_build(client: Any, context: str, tag: str, root: str, recipe: str, report: Report) -> None:
    output: list[str] = []
    for event in client.build(
        path=context,
        tag=tag,
        buildargs={"BASE": root},
        labels={RECIPE_LABEL: recipe},
        rm=True,
        forcerm=True,
        decode=True,
        network_mode="host",
    ):
        if "error" in event:
            raise BuildFailed(f"{tag} could not be built: {event['error'].strip()}\n" + "\n".join(output[-15:]))
        if line := event.get("stream", "").strip():
            output.append(line)
            if line.startswith("Step") or line.startswith("Setting up"):
                report(f"  {line}")


def download_wheels(context: Path, report: Report) -> None:
    """Download the packages of ``requirements.txt``, if the image has one, into ``wheels/``."""
    if not (context / "requirements.txt").exists():
        return
    report("  downloading its Python packages")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [
        "--require-hashes",
        "--only-binary=:all:",
        f"--python-version={PYTHON}",
        "--dest",
        "wheels",
        "-r",
        "requirements.txt",
    ]
    done = subprocess.run(command, cwd=context, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
    if done.returncode:
        raise BuildFailed(f"the Python packages of the image could not be downloaded: {done.stderr.strip()[-800:]}")


def engine_client(timeout_s: float) -> Any:
    """Return a client of this machine's Docker engine, without a request to it. Raises NoEngine if the SDK is missing.

    ``timeout_s`` is the timeout of each request.
    """
    try:
        import docker
    except ImportError as error:
        raise NoEngine('the Docker SDK is not installed: pip install "turnwise[sandbox]"') from error
    return docker.APIClient(timeout=timeout_s, **docker.utils.kwargs_from_env())


def _client() -> Any:
    try:
        client = engine_client(BUILD_TIMEOUT_S)
        client.ping()
    except NoEngine:
        raise
    except Exception as error:
        raise NoEngine(f"no Docker engine answers ({error}): install docker.io and start dockerd") from error
    return client


def _id(client: Any, image: str) -> str:
    return str(client.inspect_image(image)["Id"])


def _label(client: Any, image: str) -> str | None:
    import docker.errors

    try:
        return (client.inspect_image(image)["Config"]["Labels"] or {}).get(RECIPE_LABEL)
    except docker.errors.ImageNotFound:
        return None


def _base(client: Any, report: Report) -> str:
    """Return the base image: an existing one, else one that is pulled, else one that debootstrap makes."""
    import docker.errors

    for existing in (STOCK_BASE, OWN_BASE):
        try:
            _id(client, existing)
        except docker.errors.ImageNotFound:
            continue
        return existing
    report(f"pulling {STOCK_BASE}")
    try:
        engine_client(PULL_TIMEOUT_S).pull(STOCK_BASE)
    except Exception as error:
        LOG.info("the base image cannot be pulled", exc_info=True, extra={"image": STOCK_BASE})
        report(f"  no registry is reachable ({type(error).__name__})")
        _make_base(client, report)
        return OWN_BASE
    return STOCK_BASE


def _make_base(client: Any, report: Report) -> None:
    program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or os.geteuid() != 0:
        raise BuildFailed(
            f"{STOCK_BASE} can be neither pulled nor made on this machine: install debootstrap (`apt-get install "
            "debootstrap`) and run as root, or choose another base with `--base`"
        )
    with tempfile.TemporaryDirectory(prefix="tw-base-") as folder:
        report(f"making {OWN_BASE} with debootstrap, about half a minute")
        root = Path(folder) / "root"
        done = subprocess.run(
            [program, "--variant=minbase", SUITE, str(root)],
            capture_output=True,
            text=True,
            timeout=DEBOOTSTRAP_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise BuildFailed(f"debootstrap failed: {(done.stdout + done.stderr).strip()[-800:]}")
        _add_security_suite(root)
        packed = Path(folder) / "root.tar"
        pack = ["tar", "-C", str(root), "-cf", str(packed), "."]
        subprocess.run(pack, check=True, timeout=PACK_TIMEOUT_S)
        repository, _, tag = OWN_BASE.partition(":")
        client.import_image(str(packed), repository=repository, tag=tag)


def _add_security_suite(root: Path) -> None:
    """Add the security suite of the same mirror, which has the browsers; debootstrap configures the main suite only."""
    sources = root / "etc/apt/sources.list"
    first = sources.read_text().split()
    mirror = first[1].rstrip("/")
    sources.write_text(
        f"deb {mirror} {SUITE} main\ndeb {mirror} {SUITE}-updates main\ndeb {mirror}-security {SUITE}-security main\n"
    )
