"""Names of the shipped images.

The tag of a shipped image is a hash of its recipe: the files of its folder, and the programs that are copied into it.
A changed program therefore needs a new image, and its absence is reported before a sandbox starts.
"""

import functools
import hashlib
from pathlib import Path

SHIPPED_IMAGES = ("code", "web", "desktop")
IMAGES_FOLDER = Path(__file__).parent
PACKAGE_FOLDER = IMAGES_FOLDER.parent.parent
PROGRAMS: dict[str, dict[str, str]] = {
    "web": {"driver": "envs/web/driver", "apps": "envs/web/apps/server"},
    "desktop": {"driver": "envs/desktop/driver"},
}
"""By image and name: a folder of the package ``turnwise``, found in the image as ``PROGRAMS_FOLDER/NAME``."""
PROGRAMS_FOLDER = "/opt/turnwise"
TAG_CHARACTERS = 16


def recipe_files(image: str) -> dict[str, Path]:
    """Return every file that a shipped image is built from, by its path in the context of the build."""
    own = IMAGES_FOLDER / image
    found = {file.name: file for file in own.iterdir() if file.is_file()}
    for name, source in PROGRAMS.get(image, {}).items():
        folder = PACKAGE_FOLDER / source
        for file in folder.rglob("*"):
            path = file.relative_to(folder)
            if file.is_file() and "__pycache__" not in path.parts:
                found[f"programs/{name}/{path.as_posix()}"] = file
    return dict(sorted(found.items()))


@functools.cache
def recipe_hash(image: str) -> str:
    """Return the hash of a shipped image's files, read once per process."""
    parts = ((name, hashlib.sha256(file.read_bytes()).hexdigest()) for name, file in recipe_files(image).items())
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()


def image_reference(image: str) -> str:
    """Return the engine's reference of an image; shipped images have short names in specs."""
    return f"turnwise/{image}:{recipe_hash(image)[:TAG_CHARACTERS]}" if image in SHIPPED_IMAGES else image


def latest_reference(image: str) -> str:
    """Return the reference of the last build of a shipped image, for a Dockerfile that begins with it."""
    return f"turnwise/{image}:latest"
