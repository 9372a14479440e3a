"""The pictures of an episode, each with its size and the places that the action on it points at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import unpack
from typing import Any

from .....agents.rollout.progress import TARGETS
from .....records import Step, Trajectory
from .....store.database import Database
from .....store.errors import StoreError

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Target:
    """A place on a picture, in its pixels: a point, or a box if it has a width and a height."""

    x: float
    y: float
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that an episode holds."""

    hash: str
    width: int | None
    """In pixels; None if the picture is not a PNG, or is missing."""
    height: int | None
    targets: Sequence[Target] = ()
    """The places that the action points at, as the environment reported them; none if it reported none."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """The first picture of a turn, for the strip of all pictures."""

    turn: int
    hash: str


def seen_in(step: Step) -> Sequence[str]:
    """Return the pictures that the policy saw in a turn, or the screenshot that the run kept of it."""
    return step.images or ([step.screenshot] if step.screenshot else [])


def seen_at_end(found: Trajectory) -> Sequence[str]:
    """Return the pictures of the final observation, or the screenshot that the run kept of it."""
    return found.final_images or ([found.final_screenshot] if found.final_screenshot else [])


def thumbnails(found: Trajectory, total: int) -> list[Thumbnail]:
    """Return the first picture of each loaded turn that has one, and of the end, whose turn is ``total``."""
    turns = [(step.index, seen_in(step)) for step in found.steps] + [(total, seen_at_end(found))]
    return [Thumbnail(turn, pictures[0]) for turn, pictures in turns if pictures]


def sizes_of(database: Database, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the width and the height of each stored PNG, by hash."""
    try:
        with database.read() as conn:
            contents = database.blobs.get_unchecked(conn, set(names))
    except StoreError:  # a missing picture is shown as missing
        return {}
    return {name: size for name, content in contents.items() if (size := png_size(content)) is not None}


def png_size(content: bytes) -> tuple[int, int] | None:
    """Return the width and the height of a PNG by its header; None if it is not one."""
    if not content.startswith(PNG) or content[12:16] != b"IHDR" or len(content) < 24:
        return None
    width, height = unpack(">II", content[16:24])
    return (width, height) if width and height else None


def targets_of(extras: Mapping[str, Any], turn: int) -> list[Target]:
    """Return the places that the action of a turn points at; other values than an environment reports are left out."""
    by_turn = extras.get(TARGETS)
    places = by_turn.get(str(turn), ()) if isinstance(by_turn, dict) else ()
    numbers = [one for one in places if isinstance(one, list) and all(isinstance(value, int | float) for value in one)]
    return [Target(*one) for one in numbers if len(one) in (2, 4)]


def pictures(names: Sequence[str], sizes: Mapping[str, tuple[int, int]], targets: Sequence[Target]) -> list[Picture]:
    """Return pictures with their sizes; only the first one is the screen, which has the targets."""
    found = []
    for place, name in enumerate(names):
        width, height = sizes.get(name, (None, None))
        found.append(Picture(name, width, height, targets if not place and name in sizes else ()))
    return found
