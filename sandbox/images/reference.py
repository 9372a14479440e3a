"""Names of the registered images, and the recipe of each.

A package registers an image by an entry point of the group ``turnwise.sandbox_images``: its name, and an
``ImageRecipe``. The tag of an image is a hash of its recipe: the files of its folder, and the programs that are copied
into it. A changed program therefore needs a new image, and its absence is reported before a sandbox starts.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from ..errors import SandboxError

GROUP = "turnwise.sandbox_images"
PROGRAMS_FOLDER = "/opt/turnwise"
TAG_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The files that an image is built from."""

    folder: Path
    """The folder of the Dockerfile, which begins with ``ARG BASE``."""
    programs: Mapping[str, Path] = field(default_factory=dict)
    """By name, a folder of drivers or apps, found in the image as ``PROGRAMS_FOLDER/NAME``."""

    def files(self) -> dict[str, Path]:
        """Return every file of the recipe, by its path in the context of the build."""
        found = {file.name: file for file in self.folder.iterdir() if file.is_file()}
        for name, folder in self.programs.items():
            for file in folder.rglob("*"):
                path = file.relative_to(folder)
                if file.is_file() and "__pycache__" not in path.parts:
                    found[f"programs/{name}/{path.as_posix()}"] = file
        return dict(sorted(found.items()))


@functools.cache
def registered() -> Mapping[str, EntryPoint]:
    """Return the entry point of each registered image, by name, without loading it."""
    return {point.name: point for point in sorted(entry_points(group=GROUP))}


@functools.cache
def recipe(image: str) -> ImageRecipe:
    """Return the recipe of a registered image. Raises SandboxError: its package cannot be imported."""
    point = registered()[image]
    try:
        return point.load()  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise SandboxError(f"the sandbox image `{image}` is registered as `{point.value}`: {error}") from error


@functools.cache
def recipe_hash(image: str) -> str:
    """Return the hash of a registered image's files, read once per process."""
    files = recipe(image).files().items()
    parts = ((name, hashlib.sha256(file.read_bytes()).hexdigest()) for name, file in files)
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()


def image_reference(image: str) -> str:
    """Return the engine's reference of an image; registered images have short names in specs."""
    return f"turnwise/{image}:{recipe_hash(image)[:TAG_CHARACTERS]}" if image in registered() else image


def latest_reference(image: str) -> str:
    """Return the reference of the last build of a registered image, for a Dockerfile that begins with it."""
    return f"turnwise/{image}:latest"
