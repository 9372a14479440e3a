"""Tiny environments in pixels: an observation is a small screenshot and a few words, an action is a click on a point.

``click 42 70`` clicks the point 42 px from the left and 70 px from the top of the screenshot. The words of a
coordinate are the middles of cells of ``cell_px`` pixels, so that a coordinate is one token. A click that hits no
element of the task is invalid, and is not carried out: it could change the screen for longer than an episode.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import ClassVar

from gymnasium.spaces import Dict

from ...base import Obs
from ...episode import T, Turn
from ...spaces import FreeText, PngSpace
from ..computer.elements import Node
from ..computer.screenshots import black, checked
from .base import INVALID_REWARD, TinyEnv


def coordinates(pixels: int, cell_px: int) -> tuple[str, ...]:
    """Return the words of the coordinates along a side of ``pixels``."""
    return tuple(str(middle) for middle in range(cell_px // 2, pixels, cell_px))


class TinyPixelsEnv(TinyEnv[T]):
    """The base class of environments that a tiny policy sees: it names the elements of the screen that can be clicked.

    Invariant: the policy reads the screenshot; elements serve the check of a click, the oracle and the valid actions.
    """

    width: ClassVar[int]
    height: ClassVar[int]
    cell_px: ClassVar[int]
    max_chars = 80

    def __init__(self) -> None:
        super().__init__()
        image = PngSpace(self.width, self.height)
        self.observation_space = Dict({"text": FreeText(self.max_chars, words=self.words), "image": image})
        self._picture = black(self.width, self.height)

    @abstractmethod
    def _elements(self) -> Mapping[str, Node]:
        """Return the elements that can be clicked, each with a name."""

    @abstractmethod
    def _click(self, x: int, y: int) -> Turn:
        """Click a point of an element; the observation of the turn is its words."""

    def _weight(self, name: str) -> float:
        """Return the weight of an element among the valid actions, which its clicks share."""
        return 1.0

    @abstractmethod
    def _solution(self) -> str:
        """Return the name of the element that the oracle clicks next.

        Raises:
            NotImplementedError: the turns are not those of the solution.
        """

    @property
    def state_key(self) -> str:
        """Name the picture."""
        return sha256(self._picture).hexdigest()[:16]

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the clicks on each element."""
        clicks = {name: self._clicks(node) for name, node in self._elements().items()}
        return [(click, self._weight(name) / len(those)) for name, those in clicks.items() for click in those]

    def oracle(self) -> str:
        """Return the next click of the solution."""
        clicks = self._clicks(self._elements()[self._solution()])
        return clicks[len(clicks) // 2]

    def _play(self, action: str) -> Turn:
        point = self._point(action)
        if point is not None and any(_holds(node, *point) for node in self._elements().values()):
            turn = self._click(*point)
        else:
            turn = Turn("invalid", {"invalid": INVALID_REWARD}, valid=False)
        if point is not None:
            turn = replace(turn, info={**turn.info, "targets": [list(map(float, point))]})
        return self._seen(turn)

    def _point(self, action: str) -> tuple[int, int] | None:
        """Return the point of a click; None if the action is another one, or the point is outside the screenshot."""
        match action.split():
            case ["click", x, y] if (x + y).isascii() and x.isdecimal() and y.isdecimal() and max(len(x), len(y)) <= 4:
                point = int(x), int(y)
                return point if point[0] < self.width and point[1] < self.height else None
        return None

    def _seen(self, turn: Turn) -> Turn:
        """Return a turn with the picture next to its words."""
        return replace(turn, observation={"text": turn.observation, "image": self._picture})

    def _take(self, png: bytes) -> None:
        """Keep the picture of the screen; a black one in the place of damage."""
        self._picture, _ = checked(png, self.width, self.height)

    def _ended(self) -> Obs:
        return {"text": "ended", "image": black(self.width, self.height)}

    def _clicks(self, node: Node) -> list[str]:
        xs, ys = coordinates(self.width, self.cell_px), coordinates(self.height, self.cell_px)
        return [f"click {x} {y}" for x in xs for y in ys if _holds(node, int(x), int(y))]


def _holds(node: Node, x: int, y: int) -> bool:
    """Return whether a point lies inside an element, not on its border."""
    left, top, width, height = node["rect"]
    return bool(left < x < left + width - 1 and top < y < top + height - 1)
