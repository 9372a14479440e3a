"""``turnwise/TextSite-v0``: a small site drawn from the seed and observed as a compact accessibility tree in text.

Families of tasks:

* **find**: report the price of an item that several sections name and one section confirms;
* **login**: log in with the user and password of the task, then open a section;
* **open**: open a section.

Actions: ``click NAME``, ``fill FIELD VALUE``, ``back``, ``answer NUMBER``, ``done``.

Only the first observation states the task, so the policy must remember it. A page lists the actions that apply on it:
in a search, the unread links (all of them again once all are read); on a form, the empty fields, then ``submit``. A
list begins with the word that begins the action and ends with the kind of page, because a small policy finds both by
their words, but cannot find the end of a list of unknown length.

Reward: 1 for success; -.3 for a wrong answer, or ``done`` anywhere but at the goal; +.2 once each for the right user,
the right password, the login and the goal page; -.05 for an action that does not parse or apply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base import Info, Obs, TurnEnv, seed_and_split
from ..spaces import FreeText
from .instances import FAMILIES, FIELDS, NUMBERS, PASSWORDS, USERS, VOCABULARY, Site, draw

HOME = "home"
FORM = "form"
STEP_REWARD = 0.2
WRONG_REWARD = -0.3
INVALID_REWARD = -0.05
MAX_CHARS = 400

_VALUES = frozenset(USERS + PASSWORDS)
_NUMBERS = frozenset(NUMBERS)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of an episode on the site."""

    site: Site
    page: str
    wanted: str
    read: tuple[str, ...]
    filled: tuple[str, ...]
    logged_in: bool
    earned: frozenset[str]
    over: bool


class TextSiteEnv(TurnEnv):
    """The site of a seed. ``family`` is ``mix`` or one of ``find``, ``login``, ``open``; ``pool_size`` is the number of
    training tasks, or 0 for one task per seed.

    Raises:
        ValueError: the family or, at reset, the split is unknown; or ``pool_size`` is negative.
    """

    restorable = True
    thread_bound = False

    def __init__(self, family: str = "mix", pool_size: int = 0) -> None:
        if pool_size < 0:
            raise ValueError(f"`pool_size` of `turnwise/TextSite-v0` is {pool_size}; choose 0 or more")
        self.pool_size = pool_size
        if family != "mix" and family not in FAMILIES:
            known = ", ".join(("mix", *FAMILIES))
            raise ValueError(f"unknown family {family!r} of `turnwise/TextSite-v0`; choose from {known}")
        self.family = family
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(MAX_CHARS, words=VOCABULARY)
        self._site: Site | None = None

    @property
    def site(self) -> Site:
        """Return the current instance.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._site is None:
            raise RuntimeError("`turnwise/TextSite-v0` was stepped before its first reset; call `reset` first")
        return self._site

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``).

        Raises:
            ValueError: the split is unknown.
        """
        super().reset(seed=seed)
        number, split = seed_and_split(self, seed, options)
        self._site = draw(number, split, self.family)
        self._page = HOME
        self._wanted = ""
        self._read: list[str] = []
        self._filled: list[str] = []
        self._logged_in = False
        self._earned: set[str] = set()
        self._over = False
        return f"{self._site.task} {self._view()}", self._info(True, {})

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply the text of one action; after the end every action gives "ended" and reward 0."""
        site = self.site
        words = action.split()
        parts: dict[str, float] = {}
        note: str | None = "invalid"
        if self._over:
            return "ended", 0.0, True, False, self._info(False, {})
        match words:
            case ["answer", number] if number in _NUMBERS:
                return self._end(bool(site.prices) and site.prices[site.links.index(site.target)] == number)
            case ["done"]:
                return self._end(self._at_goal() and site.family != "find")
            case ["back"] if self._page != HOME:
                self._page, note = HOME, ""
            case ["click", "submit"] if self._page == FORM and len(self._filled) == len(FIELDS):
                note = self._submit(parts)
            case ["click", name] if self._page == HOME and name in self._links():
                note = self._open(name, parts)
            case ["fill", field, value] if self._page == FORM and value in _VALUES and field in self._left():
                note = self._fill(field, value, parts)
        if note == "invalid":
            parts["invalid"] = INVALID_REWARD
        text = f"{note} {self._view()}" if note else self._view()
        return text, sum(parts.values()), False, False, self._info(note != "invalid", parts)

    def snapshot(self) -> Snapshot:
        """Return the page, the fields and links used, and the rewards earned."""
        return Snapshot(
            self.site,
            self._page,
            self._wanted,
            tuple(self._read),
            tuple(self._filled),
            self._logged_in,
            frozenset(self._earned),
            self._over,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Continue the episode of a snapshot."""
        self._site = snapshot.site
        self._page = snapshot.page
        self._wanted = snapshot.wanted
        self._read = list(snapshot.read)
        self._filled = list(snapshot.filled)
        self._logged_in = snapshot.logged_in
        self._earned = set(snapshot.earned)
        self._over = snapshot.over

    def _links(self) -> tuple[str, ...]:
        links = self.site.links
        return tuple(link for link in links if link not in self._read) if self.site.family == "find" else links

    def _earn(self, name: str, parts: dict[str, float]) -> None:
        if name not in self._earned:
            self._earned.add(name)
            parts[name] = STEP_REWARD

    def _at_goal(self) -> bool:
        return self._page == self.site.target

    def _open(self, name: str, parts: dict[str, float]) -> str:
        self._wanted = name
        self._page = FORM if self.site.family == "login" and not self._logged_in else name
        self._read = [*self._read, name] if len(self._read) + 1 < len(self.site.links) else []
        if self._at_goal():
            self._earn("goal", parts)
        return ""

    def _fill(self, field: str, value: str, parts: dict[str, float]) -> str:
        if value != self.site.secrets[FIELDS.index(field)]:
            return "wrong"
        self._filled.append(field)
        self._earn(field, parts)
        return ""

    def _submit(self, parts: dict[str, float]) -> str:
        self._logged_in = True
        self._page = self._wanted
        self._earn("login", parts)
        if self._at_goal():
            self._earn("goal", parts)
        return "welcome"

    def _end(self, success: bool) -> tuple[Obs, float, bool, bool, Info]:
        self._over = True
        parts = {"success": 1.0} if success else {"wrong": WRONG_REWARD}
        info = self._info(True, parts)
        info["success"] = success
        return "right" if success else "wrong", sum(parts.values()), True, False, info

    def _view(self) -> str:
        site = self.site
        if self._page == HOME:
            return " ".join(["click", *self._links(), HOME])
        if self._page == FORM:
            left = self._left()
            return " ".join(["fill", *left, FORM]) if left else "click submit filled"
        if site.family == "find":
            price = site.prices[site.links.index(self._page)]
            return f"{site.item} {price} {'confirmed' if self._at_goal() else 'rumor'}"
        return f"{self._page} page"

    def _left(self) -> list[str]:
        return [field for field in self.site.form if field not in self._filled]

    def _info(self, valid: bool, parts: dict[str, float]) -> Info:
        key = f"{self._page}|{','.join(sorted(self._read))}|{','.join(sorted(self._filled))}|{self._logged_in:d}"
        return {"action_valid": valid, "state_key": key, "env_error": None, "success": False, "reward_parts": parts}

    def tasks(self, split: str) -> Sequence[int] | None:
        """Return the seeds 0 to ``pool_size`` - 1 for training; None without a limit, and for the split ``test``."""
        return range(self.pool_size) if self.pool_size and split == "train" else None

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the actions that apply on this page; actions that end the episode have half the weight."""
        site = self.site
        done = [] if site.family == "find" else [("done", 0.5)]
        if self._page == HOME:
            return [(f"click {link}", 1.0) for link in self._links()] + done
        actions = [("back", 1.0), *done]
        if self._page == FORM:
            fills = [(f"fill {field} {value}", 1.0) for field in self._left() for value in site.secrets]
            actions += fills or [("click submit", 1.0)]
        elif site.family == "find":
            actions.append((f"answer {site.prices[site.links.index(self._page)]}", 0.5))
        return actions

    def oracle(self) -> str:
        """Return the next correct action, from the pages that were visited so far."""
        site = self.site
        if self._page == FORM:
            left = self._left()
            return f"fill {left[0]} {site.secrets[FIELDS.index(left[0])]}" if left else "click submit"
        if site.family == "find" and "goal" in self._earned:
            return f"answer {site.prices[site.links.index(site.target)]}"
        if self._page == HOME:
            return f"click {self._links()[0] if site.family == 'find' else site.target}"
        return "done" if self._at_goal() else "back"

    def vocabulary(self) -> list[str]:
        """Return every word of the observations and valid actions."""
        return list(VOCABULARY)
