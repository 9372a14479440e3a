"""The pictures of an episode, each with its size and the places that the action on it points at."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import unpack
from typing import Any

from .....agents.rollout.progress import IMAGE_SIZES, TARGETS
from .....records import Message, Step, Trajectory
from .....store.database import Database
from .....store.errors import StoreError

PNG = b"\x89PNG\r\n\x1a\n"
Size = tuple[int, int]
"""Width and height in pixels."""
Part = tuple[int, int, int, int]
"""Left, top, width and height in pixels of a picture."""
SIDE_MAX = 16_384
"""Pixels of a side of a picture that a page draws, at most."""
_SIZE = re.compile(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})")


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
    seen: Size | None = None
    """The size that the image processor gave it before the policy saw it; None if no policy with a processor did."""
    part: Part | None = None
    """The part of it that the image processor cut out for the policy; None for all of it."""
    is_kept: bool = False
    """Whether the run kept it for people, and the observation has no image."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """The first picture of a turn, for the strip of all pictures."""

    turn: int
    hash: str


@dataclass(frozen=True, slots=True)
class Window:
    """The pictures in the context of a turn, which are the newest ones of the episode."""

    shown: Sequence[Thumbnail]
    """In the order of their turns; the last are those of the turn itself."""
    dropped: int
    """Pictures of earlier turns that are not in the context."""
    dropped_turns: Sequence[int]
    """The first and the last turn of these; empty for none."""


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


def window_of(step: Step, steps: Mapping[int, Step], messages: Mapping[int, Message]) -> Window | None:
    """Return the pictures that the policy had in its context in a turn; None for a policy without tokens, or if the
    beginning of the context is not loaded.

    Args:
        steps: the loaded turns, by index.
        messages: the loaded messages, by index.
    """
    count, index = 0, step.message
    if index is None:
        return None
    while index is not None:
        if index not in messages:
            return None
        count += len(messages[index].images)
        index = messages[index].parent
    pictures = [Thumbnail(turn, name) for turn in sorted(steps) if turn <= step.index for name in steps[turn].images]
    kept = max(len(pictures) - count, 0)
    turns = [one.turn for one in pictures[:kept]]
    return Window(pictures[kept:], kept, [turns[0], turns[-1]] if turns else [])


def sizes_of(database: Database, names: Iterable[str]) -> dict[str, Size]:
    """Return the width and the height of each stored PNG, by hash."""
    try:
        with database.read() as conn:
            contents = database.blobs.get_unchecked(conn, set(names))
    except StoreError:  # a missing picture is shown as missing
        return {}
    return {name: size for name, content in contents.items() if (size := png_size(content)) is not None}


def png_size(content: bytes) -> Size | None:
    """Return the width and the height of a PNG by its header; None if it is not one."""
    if not content.startswith(PNG) or content[12:16] != b"IHDR" or len(content) < 24:
        return None
    width, height = unpack(">II", content[16:24])
    return (width, height) if width and height else None


def targets_of(extras: Mapping[str, Any], turn: int) -> list[Target]:
    """Return the places that the action of a turn points at; other values than an environment reports are left out."""
    by_turn = extras.get(TARGETS)
    places = by_turn.get(str(turn)) if isinstance(by_turn, dict) else None
    found = [one for one in places if isinstance(one, list)] if isinstance(places, list) else []
    found = [one for one in found if all(isinstance(value, int | float) and abs(value) <= SIDE_MAX for value in one)]
    return [Target(*one) for one in found if len(one) in (2, 4) and min(one[2:], default=0) >= 0]


def processed_sizes(extras: Mapping[str, Any]) -> dict[Size, tuple[Size, Part | None]]:
    """Return the sizes that the image processor gave the pictures of an episode, and the parts that it cut out of them,
    by their sizes; other values than a run stores are left out."""
    found = dict[Size, tuple[Size, Part | None]]()
    stored = extras.get(IMAGE_SIZES)
    for name, value in stored.items() if isinstance(stored, dict) else ():
        size = _SIZE.fullmatch(name)
        if size is None or not isinstance(value, list) or any(type(one) is not int for one in value):
            continue
        width, height = int(size[1]), int(size[2])
        match value:
            case [x, y] if _is_size(x, y):
                found[width, height] = ((x, y), None)
            case [x, y, left, top, w, h] if _is_size(x, y) and is_part((left, top, w, h), (width, height)):
                found[width, height] = ((x, y), (left, top, w, h))
    return found


def is_part(part: Part, size: Size) -> bool:
    """Return whether a part lies in a picture."""
    left, top, width, height = part
    return min(left, top) >= 0 and min(width, height) > 0 and left + width <= size[0] and top + height <= size[1]


def _is_size(width: int, height: int) -> bool:
    return min(width, height) > 0 and max(width, height) <= SIDE_MAX


def pictures(
    names: Sequence[str],
    sizes: Mapping[str, Size],
    targets: Sequence[Target],
    processed: Mapping[Size, tuple[Size, Part | None]] | None = None,
    *,
    is_kept: bool = False,
) -> list[Picture]:
    """Return pictures with their sizes; only the first one is the screen, which has the targets.

    Args:
        sizes: by hash.
        processed: the size and the part that the policy saw, by the size of the picture.
        is_kept: whether the run kept them for people.
    """
    found = []
    for place, name in enumerate(names):
        width, height = sizes.get(name, (None, None))
        seen, part = (None if is_kept or name not in sizes else (processed or {}).get(sizes[name])) or (None, None)
        shown = targets if not place and name in sizes else ()
        found.append(Picture(name, width, height, shown, seen, part, is_kept))
    return found
