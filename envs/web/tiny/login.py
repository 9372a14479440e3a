"""Logging in on the shop, the tracker or the wiki: what ``turnwise/TinyWeb-v0`` measures on sites never trained on."""

import re
from collections.abc import Mapping
from typing import Any

from ..actions import Action
from ..apps.env import WebAppsEnv
from ..custom_site import Asked
from ..env import Judged

LOGGED_IN = "Log out"
APART = 1000
NAMED = re.compile(r"Log in as (\S+) \(password (\S+)\)")


class LoginEnv(WebAppsEnv):
    """The worlds of ``turnwise/WebApps-v0``, of which no more is asked; an episode begins at the page to log in on."""

    def task(self, seed: int, split: str) -> Asked:
        """The first task from this seed's first on in which somebody logs in."""
        for number in range(APART * seed, APART * (seed + 1)):
            found = super().task(number, split)
            if named := NAMED.search(found.goal):
                break
        else:
            raise RuntimeError(f"none of {APART} tasks begins with a login; is NAMED still how they ask for it?")
        name, password = named.groups()
        goal = f'Enter the username "{name}" and the password "{password}" and press Log in.'
        return Asked(goal, "/login", found.files, found.facts)

    def judge(self, action: Action | None, answer: Mapping[str, Any]) -> Judged:
        """Over once the page says that one is logged in."""
        success = any((node["role"], node["name"]) == ("button", LOGGED_IN) for node in answer.get("nodes", ()))
        return Judged({"success": 1.0} if success else {}, success, success)
