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

from ...draws import SeededDraws, draw_for, held_out, words
from ...episode import Turn
from ...options import not_negative, one_of
from .base import STEP_REWARD, TinyEnv, end, invalid

FAMILIES = ("find", "login", "open")
HELD_OUT_DIAGONALS = 4
"""One of this many diagonals of users and passwords belongs to the test split. With so few combinations, a hash could
hold out nearly all combinations of one word.
"""


ITEMS = words("lamp chair desk rug clock vase kettle pan fork plate drill saw hammer rope tent boots")
SECTIONS = words("tools garden kitchen toys books music sports travel inbox orders help news photos cart")
USERS = words("max ann bob eva tom liz sam zoe")
PASSWORDS = words("oak elm fig ash fir yew pine palm")
FIELDS = ("user", "password")
NUMBERS = tuple(str(number) for number in range(10, 100))
GRAMMAR = words(
    "task find price of open as home page confirmed rumor form filled submit wrong invalid welcome"
    " click fill back answer done ended right"
)
VOCABULARY = GRAMMAR + FIELDS + ITEMS + SECTIONS + USERS + PASSWORDS + NUMBERS


@dataclass(frozen=True, slots=True)
class Site:
    """One instance: the task and the site."""

    family: str
    task: str
    links: tuple[str, ...]
    """Sections in the order of the home page."""
    target: str
    """The section that holds the goal."""
    item: str = ""
    prices: tuple[str, ...] = ()
    """The price of the item per section, aligned with ``links``; only the price at ``target`` is confirmed."""
    secrets: tuple[str, str] = ("", "")
    """User and password that log in."""
    form: tuple[str, ...] = ()
    """Fields in the order of the login form."""

    def price(self, section: str) -> str:
        """Return the price of the item in a section; empty where the site has none."""
        return dict(zip(self.links, self.prices, strict=False)).get(section, "")


def _find(draws: SeededDraws, count: int) -> tuple[Site, bool]:
    links, prices, item = draws.sample(SECTIONS, count), draws.sample(NUMBERS, count), draws.choice(ITEMS)
    target, price = draws.choice(tuple(zip(links, prices, strict=True)))
    return Site("find", f"task find price of {item}", links, target, item=item, prices=prices), held_out(
        f"{item} {price}"
    )


def _login(draws: SeededDraws, count: int) -> tuple[Site, bool]:
    links = draws.sample(SECTIONS, count)
    target, user, password, form = (
        draws.choice(links),
        draws.choice(USERS),
        draws.choice(PASSWORDS),
        draws.shuffled(FIELDS),
    )
    task = f"task open {target} as user {user} password {password}"
    is_held_out = (USERS.index(user) + PASSWORDS.index(password)) % HELD_OUT_DIAGONALS == 0
    return Site("login", task, links, target, secrets=(user, password), form=form), is_held_out


def _open(draws: SeededDraws, count: int) -> tuple[Site, bool]:
    links = draws.sample(SECTIONS, count)
    target = draws.choice(links)
    return Site("open", f"task open {target}", links, target), held_out(" ".join([target, *sorted(links)]))


_BUILD = {"find": _find, "login": _login, "open": _open}


def draw(seed: int, split: str, family: str) -> Site:
    """Return the instance of a seed; ``family`` is one of ``FAMILIES``, or ``mix`` to let the seed choose."""
    draws = SeededDraws(f"{split} {seed} {family}")
    build = _BUILD[draws.choice(FAMILIES) if family == "mix" else family]
    return draw_for(split, lambda: build(draws, draws.integer(3, 5)))


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
    """Find a price, log in or open a section on a small text site, in a closed vocabulary.

    ``family`` is ``mix`` or one of ``find``, ``login``, ``open``; ``pool_size`` is the number of training tasks, or 0
    for one task per seed.

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
