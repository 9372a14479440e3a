"""The task of logging in to the shop, the tracker or the wiki: the site split of ``turnwise/TinyWeb-v0``."""

import re
from collections.abc import Mapping
from typing import Any

from ..computer.calls import Action
from ..computer.env import Verdict
from ..web.apps.env import WebAppsEnv
from ..web.custom_site import SiteTask

LOGGED_IN_BUTTON = "Log out"
SEEDS_PER_TASK = 1000
LOGIN_GOAL = re.compile(r"Log in as (\S+) \(password (\S+)\)")


class LoginEnv(WebAppsEnv):
    """The worlds of ``turnwise/WebApps-v0`` with a single task: log in. An episode starts at the login page."""

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the login of the first task with one, among the seeds reserved for this seed."""
        for number in range(SEEDS_PER_TASK * seed, SEEDS_PER_TASK * (seed + 1)):
            task = super().task(number, split)
            if login := LOGIN_GOAL.search(task.goal):
                break
        else:
            raise RuntimeError(f"none of {SEEDS_PER_TASK} tasks has a goal that matches `{LOGIN_GOAL.pattern}`")
        name, password = login.groups()
        goal = f'Enter the username "{name}" and the password "{password}" and press Log in.'
        return SiteTask(goal, "/login", task.files, task.data)

    def evaluate(self, action: Action | None, answer: Mapping[str, Any]) -> Verdict:
        """Return success once the page displays the button for logging out."""
        nodes = answer.get("nodes", ())
        success = any((node["role"], node["name"]) == ("button", LOGGED_IN_BUTTON) for node in nodes)
        return Verdict({"success": 1.0} if success else {}, success, success)
