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

from dataclasses import dataclass, replace
from typing import Any

from ..episode import Turn
from ..options import not_negative, one_of
from .base import STEP_REWARD, TinyEnv, end, invalid
from .text_tasks import FAMILIES, FIELDS, NUMBERS, PASSWORDS, USERS, VOCABULARY, Site, draw

HOME = "home"
FORM = "form"

_VALUES = frozenset(USERS + PASSWORDS)
_NUMBERS = frozenset(NUMBERS)


@dataclass(frozen=True, slots=True)
class Visit:
    """An episode on a site."""

    site: Site
    page: str = HOME
    wanted: str = ""
    """The section that the login leads to."""
    read: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    logged_in: bool = False
    earned: frozenset[str] = frozenset()

    @property
    def links(self) -> list[str]:
        """Return the links of the home page; in a search, the unread ones."""
        return [link for link in self.site.links if self.site.family != "find" or link not in self.read]

    @property
    def left(self) -> list[str]:
        """Return the empty fields of the form."""
        return [name for name in self.site.form if name not in self.filled]

    @property
    def at_goal(self) -> bool:
        """Return whether the page holds the goal."""
        return self.page == self.site.target

    @property
    def view(self) -> str:
        """Return the text of the page."""
        if self.page == HOME:
            return " ".join(["click", *self.links, HOME])
        if self.page == FORM:
            left = self.left
            return " ".join(["fill", *left, FORM]) if left else "click submit filled"
        if self.site.family == "find":
            return f"{self.site.item} {self.site.price(self.page)} {'confirmed' if self.at_goal else 'rumor'}"
        return f"{self.page} page"


class TextSiteEnv(TinyEnv[Visit]):
    """The site of a seed. ``family`` is ``mix`` or one of ``find``, ``login``, ``open``; ``pool_size`` is the number of
    training tasks, or 0 for one task per seed.

    Raises:
        ValueError: the family or, at reset, the split is unknown; or ``pool_size`` is negative.
    """

    name = "turnwise/TextSite-v0"
    words = VOCABULARY
    restorable = True
    thread_bound = False

    def __init__(self, family: str = "mix", pool_size: int = 0) -> None:
        super().__init__()
        self.pool_size = not_negative("pool_size", pool_size, self.name)
        self.family = one_of("family", family, ("mix", *FAMILIES), self.name)

    @property
    def state_key(self) -> str:
        """Name the page, the links that were read, the fields that were filled, and the login."""
        visit = self.episode
        return f"{visit.page}|{','.join(sorted(visit.read))}|{','.join(sorted(visit.filled))}|{visit.logged_in:d}"

    def _begin(self, seed: int, split: str) -> Turn:
        self.episode = Visit(draw(seed, split, self.family))
        return Turn(f"{self.episode.site.task} {self.episode.view}")

    def _play(self, action: str) -> Turn:
        visit, site = self.episode, self.episode.site
        match action.split():
            case ["answer", number] if number in _NUMBERS:
                return end(number == site.price(site.target))
            case ["done"]:
                return end(visit.at_goal and site.family != "find")
            case ["back"] if visit.page != HOME:
                return self._continue(page=HOME)
            case ["click", "submit"] if visit.page == FORM and not visit.left:
                return self._continue("welcome ", "login", page=visit.wanted, logged_in=True)
            case ["click", name] if visit.page == HOME and name in visit.links:
                page = FORM if site.family == "login" and not visit.logged_in else name
                read = (*visit.read, name) if len(visit.read) + 1 < len(site.links) else ()
                return self._continue(page=page, wanted=name, read=read)
            case ["fill", name, value] if visit.page == FORM and value in _VALUES and name in visit.left:
                if value != site.secrets[FIELDS.index(name)]:
                    return Turn(f"wrong {visit.view}")
                return self._continue("", name, filled=(*visit.filled, name))
        return invalid(visit.view)

    def _continue(self, note: str = "", *steps: str, **changes: Any) -> Turn:
        """Return the turn that changes the visit, with the rewards of its ``steps`` that are new."""
        visit = self.episode
        goal = ["goal"] if changes.get("page", visit.page) == visit.site.target else []
        new = [step for step in (*steps, *goal) if step not in visit.earned]
        self.episode = visit = replace(visit, earned=visit.earned.union(new), **changes)
        return Turn(note + visit.view, dict.fromkeys(new, STEP_REWARD))

    def valid_actions(self) -> list[tuple[str, float]]:
        """Return the actions that apply on this page; actions that end the episode have half the weight."""
        visit, site = self.episode, self.episode.site
        done = [] if site.family == "find" else [("done", 0.5)]
        if visit.page == HOME:
            return [(f"click {link}", 1.0) for link in visit.links] + done
        actions = [("back", 1.0), *done]
        if visit.page == FORM:
            fills = [(f"fill {name} {value}", 1.0) for name in visit.left for value in site.secrets]
            actions += fills or [("click submit", 1.0)]
        elif site.family == "find":
            actions.append((f"answer {site.price(visit.page)}", 0.5))
        return actions

    def oracle(self) -> str:
        """Return the next correct action, from the pages that were visited so far."""
        visit, site = self.episode, self.episode.site
        if visit.page == FORM:
            return f"fill {visit.left[0]} {site.secrets[FIELDS.index(visit.left[0])]}" if visit.left else "click submit"
        if site.family == "find" and "goal" in visit.earned:
            return f"answer {site.price(site.target)}"
        if visit.page == HOME:
            return f"click {visit.links[0] if site.family == 'find' else site.target}"
        return "done" if visit.at_goal else "back"
