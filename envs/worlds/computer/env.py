"""An episode on a screen: what the environments in a browser and on a desktop share.

A subclass names its driver and states how an episode starts, which actions exist and what they achieved. The
observation is the tree of elements as numbered text, a screenshot, or both. Damage that an action does to the agent's
own screen (a crash, an endless script or loop) is an outcome: the observation reports it, and the episode is graded.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import prod
from numbers import Real
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from gymnasium.spaces import Dict

from ...base import Obs
from ...episode import EpisodeEnv, T, Turn
from ...options import one_of
from ...spaces import FreeText, Png, PngSpace
from .calls import Action, Invalid, InvalidAction
from .driver_client import DriverClient, Steps
from .elements import Node, render, resolve, targets
from .marks import draw_marks
from .scaling import Scale
from .screenshots import black, checked, of_size

ObservationMode = Literal["text", "screenshot", "both"]
OBSERVATION_MODES: tuple[ObservationMode, ...] = get_args(ObservationMode)
MAX_OBSERVATION_CHARS = 200_000
MAX_WAIT_MS = 3000
"""The longest wait of one action; the drivers' ``MAX_WAIT_MS``, which cut longer ones."""
MAX_PICTURE_PIXELS = 2_500_000
"""Three bytes each, with the text, are below ``runner.observations.MAX_OBSERVATION_BYTES``."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The evaluation of the screen after a turn."""

    reward_parts: Mapping[str, float] = field(default_factory=dict)
    over: bool = False
    success: bool = False


Checked: TypeAlias = bool | float | Mapping[str, bool | float]
"""Whether a task is solved, the share of it that is solved, from 0 to 1, or named parts with such values."""


def graded(method: str, checked: Checked) -> Verdict:
    """Return the verdict of a value that ``method`` returned: its reward is the share, or the mean of the parts.

    The episode is a success if all is solved. Raises TypeError: the value is none of ``Checked``.
    """
    shares = checked if isinstance(checked, Mapping) else {"success": checked}
    if not shares or not all(isinstance(one, Real | np.bool_) and 0 <= one <= 1 for one in shares.values()):
        raise TypeError(f"{method} must return True, False, a number from 0 to 1, or a dict of these: {checked!r:.80}")
    parts = {name: float(share) / len(shares) for name, share in shares.items() if share}
    return Verdict(parts, over=True, success=all(share == 1 for share in shares.values()))


def check_files(method: str, files: Mapping[str, bytes], folder: str, max_bytes: int) -> None:
    """Check the files of a task by relative path, which ``method`` returned, for a folder of the sandbox.

    Raises:
        TypeError: a file is not bytes.
        ValueError: a path leads out of the folder, or the files are too large.
    """
    for path, content in files.items():
        if not isinstance(content, bytes):
            raise TypeError(f"{method}: the file `{path}` must be bytes, not {type(content).__name__}")
        if path.startswith("/") or ".." in PurePosixPath(path).parts or not path.strip("/"):
            raise ValueError(f"{method}: the file `{path}` is outside of {folder}")
    if (size := sum(map(len, files.values()))) > max_bytes:
        raise ValueError(f"{method}: the files have {size >> 20} MiB; the limit is {max_bytes >> 20} MiB")


class ScreenEnv(EpisodeEnv[T]):
    """The base class of environments on a screen of ``width`` x ``height`` pixels.

    ``observation`` is ``text``, ``screenshot`` or ``both``; ``marks`` draws the numbers of the elements on screenshots.
    ``max_pixels`` makes screenshots smaller than the screen. Actions name points in pixels of the screenshot, or in
    ``coordinates``, the width and height that the policy takes each screenshot to have.

    Raises:
        ValueError: an option or, at reset, the split is unknown.
        SandboxError: the sandbox or its driver failed.
    """

    sandboxed = True
    keeps_sandbox = True
    width: int
    height: int
    nodes: list[Node]
    """The nodes of the last observation."""
    goal: str
    """The goal of the current episode."""

    def __init__(
        self,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        one_of("observation", observation, OBSERVATION_MODES)
        if not isinstance(marks, bool):
            raise ValueError(f"`marks` must be true or false, not {marks!r}")
        if marks and observation == "text":
            raise ValueError('`marks` are drawn on screenshots; set `observation` to "screenshot" or "both"')
        if max_pixels is not None and observation == "text":
            raise ValueError('`max_pixels` is of screenshots; set `observation` to "screenshot" or "both"')
        if coordinates is not None and observation == "text":
            raise ValueError('`coordinates` are of screenshots; set `observation` to "screenshot" or "both"')
        self.observation = observation
        self.marks = marks
        self.scale = Scale.of(self.width, self.height, max_pixels, coordinates)
        if observation != "text" and prod(self.scale.picture) > MAX_PICTURE_PIXELS:
            width, height = self.scale.picture
            raise ValueError(
                f"a picture of {width} x {height} pixels is larger than an observation may be: set `max_pixels` to "
                f"{MAX_PICTURE_PIXELS} at most"
            )
        self.action_space = FreeText()
        text_space = FreeText(MAX_OBSERVATION_CHARS)
        self.observation_space = (
            text_space if observation == "text" else Dict({"text": text_space, "image": PngSpace(*self.scale.picture)})
        )
        self.nodes, self.goal = [], ""
        self._turn = 0
        self._state_key = ""

    @property
    @abstractmethod
    def client(self) -> DriverClient:
        """The client of the screen's driver."""

    @abstractmethod
    def _opening(self, seed: int, split: str) -> Steps:
        """Draw an instance of the task; return the driver's steps that open it."""

    @abstractmethod
    def _goal(self, answer: Mapping[str, Any]) -> str:
        """Return the goal of the instance from the driver's answer to its opening."""

    @abstractmethod
    def _parse(self, text: str) -> Sequence[Action] | InvalidAction:
        """Return the actions on the last line of the agent's text."""

    @abstractmethod
    def _steps(self, actions: Sequence[Action]) -> Steps:
        """Return the driver's steps of a turn, its observation last; an invalid turn has no actions."""

    @abstractmethod
    def _verdict(self, actions: Sequence[Action], answer: Mapping[str, Any]) -> Verdict:
        """Return the verdict after a turn from the driver's answer."""

    def resolve(self, action: str) -> str:
        """Return an action with numbers in place of references such as ``{button 'Save'}``; raises LookupError."""
        return resolve(action, self.nodes)

    def next_of(self, solution: Sequence[str]) -> str:
        """Return the action of this turn from one solution. Raises NotImplementedError or LookupError."""
        if self._turn >= len(solution):
            raise NotImplementedError(f"the task of `{type(self).__name__}` has no oracle for this turn")
        return self.resolve(solution[self._turn])

    @property
    def state_key(self) -> str:
        """Name the tree of elements, or the screenshot if there is no tree."""
        return self._state_key

    def _begin(self, seed: int, split: str) -> Turn:
        limits = {"image": self.sandbox_image, "memory_mib": self.sandbox_memory_mib}
        self.client.spec = self.client.spec.model_copy(update=limits)
        answer, png = self.client.open([*self._opening(seed, split), self._observe_step()])
        self._turn = 0
        self.goal = self._goal(answer)
        observation = self._observation(f"goal: {self.goal}", answer, png)
        return Turn(observation, info={"extras": self.client.extras()})

    def _play(self, action: str) -> Turn:
        """Apply the action on the last line of the text."""
        parsed = self._parsed(action)
        actions = () if isinstance(parsed, InvalidAction) else tuple(parsed)
        pointed = [one for action in actions for one in targets(action.as_request(), self.nodes)]
        answer, png = self.client.do(self._steps(actions))
        self._turn += 1
        verdict = self._verdict(actions, answer)
        error = parsed.message if isinstance(parsed, InvalidAction) else answer.get("refused", "")
        shown_error = answer.get("lost", error)
        cut = any(one.arguments.get("ms", 0) > MAX_WAIT_MS for one in actions)
        message = f"! the wait was cut to {MAX_WAIT_MS} ms, the longest one" if cut else ""
        observation = self._observation(f"error: {shown_error}" if shown_error else message, answer, png)
        over = verdict.over or "broken" in answer
        info = {"targets": [self.scale.in_picture(one) for one in pointed]} if pointed else {}
        return Turn(observation, verdict.reward_parts, not error, over, verdict.success, info)

    def _points(self) -> str:
        """Return the line of the instructions on the points that actions name; empty without screenshots."""
        if self.observation == "text":
            return ""
        right, bottom = self.scale.grid or (side - 1 for side in self.scale.picture)
        return f"\nA point (x, y) of the screenshot has x from 0 (left) to {right} and y from 0 (top) to {bottom}"

    def _parsed(self, text: str) -> Sequence[Action] | InvalidAction:
        """Return the actions on the last line of the agent's text, in coordinates of the screen."""
        parsed = self._parse(text)
        try:
            return parsed if isinstance(parsed, InvalidAction) else [self.scale.on_screen(one) for one in parsed]
        except Invalid as invalid:
            return InvalidAction(str(invalid))

    def screenshot(self) -> Png | None:
        """Return the screen as it is now; None without a screenshot."""
        return self.client.screenshot()

    def close(self) -> None:
        """Release the sandbox."""
        self.client.close()

    def _ended(self) -> Obs:
        return "ended" if self.observation == "text" else {"text": "ended", "image": black(*self.scale.picture)}

    def _observe_step(self) -> dict[str, Any]:
        return {
            "do": "observe",
            "tree": self.observation != "screenshot" or self.marks,
            "screenshot": self.observation != "text",
        }

    def _observation(self, message: str, answer: Mapping[str, Any], png: bytes) -> Obs:
        self.nodes = list(answer.get("nodes", ()))
        pixels_only = self.observation == "screenshot"
        page = self._text_with_screenshot(answer) if pixels_only else render(answer)
        # The drivers of one image make the same file for the same pixels, so the file names the state.
        self._state_key = sha256(png if pixels_only else page.encode()).hexdigest()[:16]
        text = "\n".join(part for part in (message, page) if part)
        if self.observation == "text":
            return text
        return {"text": text, "image": self._image(png)}

    def _text_with_screenshot(self, answer: Mapping[str, Any]) -> str:
        """Return the text of an observation whose elements only the screenshot shows; empty for none."""
        return ""

    def _image(self, png: bytes) -> Png:
        """Return the screenshot, with marks if they are on; a black picture if it is not one of the screen."""
        plain = self.scale.picture == self.scale.screen and not self.marks
        if plain and self.client.program.encodes:
            return of_size(png, self.width, self.height)
        image, decoded = checked(png, self.width, self.height)
        if plain:
            return image
        picture = self.scale.shrunk(np.asarray(decoded))
        return Png.encode(draw_marks(picture, self.scale.nodes(self.nodes)) if self.marks else picture)
