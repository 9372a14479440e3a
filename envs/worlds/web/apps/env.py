"""``turnwise/WebApps-v0``: a shop, an issue tracker, and a wiki with a forum, in a browser.

Each episode starts with its own world, drawn from the seed, on a real server with a real database. The verdict compares
that database at the end with the expected one, and the agent's message with the expected answer, if the task has one:
the requested change must be there, and no other change. ``by`` selects what the test split holds out: instances,
templates, or a site.
"""

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from ....base import Info, Obs
from ....splits import TemplateChoice
from ...computer.driver_client import main_command
from ...computer.elements import Node
from ...computer.env import ObservationMode
from ..actions import ANSWER
from ..custom_site import PORT, CustomSiteEnv, FinalState, SiteTask
from .state import opened
from .tasks import APP_SPLITS, HELD_OUT_SITE, draw
from .tasks.template import Act, AppTask

DATABASE = "site.db"
WORLD = "world.json"


class WebAppsEnv(CustomSiteEnv):
    """Complete a task on a shop, a wiki or an issue tracker in a real browser.

    ``template``, such as ``shop/checkout``, selects one template, with the seed unchanged.

    Raises:
        ValueError: an option is unknown.
    """

    width, height = 1024, 768

    def __init__(
        self,
        by: str = "instance",
        held_out_site: str = HELD_OUT_SITE,
        template: str | None = None,
        observation: ObservationMode = "text",
        marks: bool = False,
        max_pixels: int | None = None,
        coordinates: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(observation, marks, max_pixels, coordinates)
        self.choice = TemplateChoice(APP_SPLITS, by, held_out_site, template)
        self._taken: list[tuple[str, Sequence[Node]]] = []
        """The valid actions so far, each with the nodes before it; ``oracle`` compares them with the solution."""
        self._solved_steps: int | None = 0
        """Leading acts of the solution among the actions that ``oracle`` compared; None once another was taken."""

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the instance of a seed."""
        instance = self.choice.instance(seed, split)
        drawn = draw(instance.template, instance.seed)
        return SiteTask(drawn.goal, files={WORLD: json.dumps(drawn.world).encode()}, data=drawn)

    def server_command(self) -> str:
        """Return the command that serves the task's app."""
        return main_command("apps", self.app_task.site, str(PORT), DATABASE, WORLD)

    @property
    def app_task(self) -> AppTask:
        """The current task. Raises RuntimeError before the first reset."""
        task: AppTask = self.episode.data
        return task

    def check(self, final: FinalState) -> bool:
        """Return whether the database and the answer are the expected ones; a file that cannot be read is wrong."""
        if DATABASE not in final.files:
            return False
        with opened(final.files[DATABASE]) as connection, contextlib.suppress(sqlite3.Error):
            return bool(self.app_task.check(connection, final.answer or None))
        return False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``) and open it."""
        self._taken, self._solved_steps = [], 0
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply the action on the last line of the text."""
        nodes = self.nodes
        result = super().step(action)
        # Further actions cannot be the solution's.
        if result[4]["action_valid"] and len(self._taken) <= len(self.app_task.oracle):
            self._taken.append((action, nodes))
        return result

    def oracle(self) -> str:
        """Return the next action of the solution, as long as no other action was taken.

        Raises:
            LookupError: another action was taken, or the page lacks the solution's element.
        """
        while self._taken and self._solved_steps is not None:
            action, nodes = self._taken.pop(0)
            right = ""
            with contextlib.suppress(LookupError):
                right = self._solution_action(self._solved_steps, nodes)
            self._solved_steps = self._solved_steps + 1 if action == right else None
        if self._solved_steps is None:
            raise LookupError("the oracle solves a task from its start only; another action was taken")
        return self._solution_action(self._solved_steps, self.nodes)

    def _solution_action(self, step: int, nodes: Sequence[Node]) -> str:
        """Return the action of a step of the solution on a page. Raises LookupError if the page lacks its element."""
        acts = self.app_task.oracle
        return as_action(acts[step], nodes) if step < len(acts) else f'{ANSWER}("done")'


def as_action(act: Act, nodes: Sequence[Node]) -> str:
    """Return an act as the agent's action on a page with these nodes.

    Raises:
        LookupError: the page lacks the element.
    """
    if act.verb == ANSWER:
        return f"{ANSWER}({act.value!r})"
    matching = [node for node in nodes if node["role"] == act.role and _same_text(node.get("name", ""), act.name)]
    if act.nth >= len(matching):
        present = ", ".join(f"{node['role']} {node.get('name', '')!r}" for node in nodes if "id" in node)[:600]
        raise LookupError(f"the page has no {act.role} {act.name!r}; it has {present}")
    number = matching[act.nth]["id"]
    return f"click({number})" if act.verb == "click" else f"{act.verb}({number}, {act.value!r})"


def _same_text(one: str, other: str) -> bool:
    return " ".join(one.split()) == " ".join(other.split())
