"""An episode in a browser: what MiniWoB++, the web apps and custom sites share.

A subclass states where an episode starts (``start_episode``) and what an action achieved (``evaluate``). Damage that an
action does to the agent's own browser (an endless script, a crash) is an outcome: the page is closed, the observation
reports it, and the episode is graded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...episode import T
from ..computer.calls import Action, InvalidAction
from ..computer.driver_client import Steps
from ..computer.elements import CLICKABLE_ROLES, LOCKED_FLAGS, TEXT_ROLES, in_viewport
from ..computer.env import ObservationMode, ScreenEnv, Verdict
from .actions import ANSWER, DIALECT, parse
from .browser_session import SPEC, BrowserSession


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """The start of an episode: the goal, the address to open, and the scripts to run in the page."""

    goal: str
    """The task for the agent; if empty, the value of the last of ``scripts``."""
    url: str
    origins: tuple[str, ...]
    """The origins that ``goto`` accepts."""
    reusable: bool = False
    """Whether an unharmed page may serve the next episode at this address; ``scripts`` then reset it in place."""
    scripts: tuple[str, ...] = ()
    """JavaScript to run in the page before the first observation."""


class BrowserEnv(ScreenEnv[T]):
    """The base class of environments in a browser, with the options and errors of ``ScreenEnv``.

    ``width`` and ``height`` of the window are CSS pixels.
    """

    sandbox_memory_mib, sandbox_image = SPEC.memory_mib, SPEC.image
    width, height = 640, 480

    def __init__(
        self,
        browser: BrowserSession,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(observation, marks, max_pixels, coordinates)
        self.browser = browser
        self._origins: tuple[str, ...] = ()
        self._fixed_goal = ""

    @property
    def client(self) -> BrowserSession:
        """The browser."""
        return self.browser

    def start_episode(self, seed: int, split: str) -> EpisodeStart:
        """Draw an instance of the task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start_episode(seed, split)")

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Return the verdict after an action; None stands for an invalid one.

        ``answer`` is the driver's answer; its ``values`` are the results of ``evaluation_scripts``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement evaluate(action, answer)")

    def evaluation_scripts(self) -> tuple[str, ...]:
        """Return JavaScript expressions to evaluate in the page after each action, for ``evaluate``."""
        return ()

    def instructions(self) -> str:
        """Return the description of the task and of the actions."""
        start = "You control a web browser to complete a task. End each turn with one action on the last line:\n"
        return start + DIALECT.usage + self._points()

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return a click on, or a text into, each element in view, and an empty answer, each with a weight."""
        actions: dict[str, float] = {}
        for node in self.nodes:
            if in_viewport(node) and not LOCKED_FLAGS & set(node.get("flags", ())):
                if node["role"] in TEXT_ROLES:
                    actions[f'fill({node["id"]}, "text")'] = 1.0
                elif node["role"] in CLICKABLE_ROLES or node.get("clickable"):
                    actions[f"click({node['id']})"] = 1.0
        return [*actions.items(), (f'{ANSWER}("")', 0.2)]

    def _opening(self, seed: int, split: str) -> Steps:
        start = self.start_episode(seed, split)
        self._origins, self._fixed_goal = start.origins, start.goal
        opening = {"do": "open", "url": start.url, "reusable": start.reusable}
        opening |= {"width": self.width, "height": self.height}
        last = len(start.scripts) - 1
        scripts = [
            {"do": "script", "script": script, "settle": index == last} for index, script in enumerate(start.scripts)
        ]
        return [opening, *scripts]

    def _goal(self, answer: Mapping[str, Any]) -> str:
        values = [value for value in answer.get("values", ()) if isinstance(value, str)]
        return self._fixed_goal or (values[-1] if values else "")

    def _parse(self, text: str) -> Sequence[Action] | InvalidAction:
        parsed = parse(text, self._origins)
        return parsed if isinstance(parsed, InvalidAction) else [parsed]

    def _steps(self, actions: Sequence[Action]) -> Steps:
        steps = [{"do": "act", "action": action.as_request()} for action in actions if action.verb != ANSWER]
        scripts = [{"do": "script", "script": script} for script in self.evaluation_scripts()]
        return [*steps, *scripts, self._observe_step()]

    def _verdict(self, actions: Sequence[Action], answer: Mapping[str, Any]) -> Verdict:
        action = actions[0] if actions else None
        verdict = self.evaluate(action, answer)
        return replace(verdict, over=verdict.over or (action is not None and action.verb == ANSWER))
