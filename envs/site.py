"""``turnwise/Site-v0``: a small web site, drawn from the seed, seen as a compact accessibility tree in text.

Three families of tasks: **find** a price that many sections name and one confirms; **login** with the values of the
task, then open a section; **open** a section. Actions: ``click NAME``, ``fill FIELD VALUE``, ``back``, ``answer
NUMBER``, ``done``. Only the first observation tells the task, so that it must be remembered. Links not yet visited
are listed first, a form lists what is left to do, and the word that decides most, the kind of page, comes last: a
small policy cannot otherwise tell where a list of unknown length ends. The list of links begins with the word that
begins the action, ``click``, which lets such a policy find the list by its own word rather than by its distance.

Reward: 1 for success; -.3 for a wrong answer or a ``done`` elsewhere than at the goal; +.2 once each for the right
user, the right password, being logged in and reaching the goal page; -.05 for what does not parse or apply (a free
no-op would invite it).
"""

from typing import Any

from .base import Info, Obs, TurnEnv
from .site_pages import FAMILIES, FIELDS, NUMBERS, PASSWORDS, SPLITS, USERS, VOCABULARY, Site, draw
from .spaces import FreeText

HOME = "home"
FORM = "form"
STEP_REWARD = 0.2
WRONG = -0.3
INVALID = -0.05
MAX_CHARS = 400

_VALUES = frozenset(USERS + PASSWORDS)
_NUMBERS = frozenset(NUMBERS)


class SiteEnv(TurnEnv):
    """The site. ``family``: ``mix``, or one of ``find``, ``login``, ``open``.

    Raises:
        ValueError: the family or, at reset, the split is unknown.
    """

    def __init__(self, family: str = "mix") -> None:
        if family != "mix" and family not in FAMILIES:
            raise ValueError(f"unknown family {family!r} of turnwise/Site-v0; choose from mix, {', '.join(FAMILIES)}")
        self.family = family
        self.action_space = FreeText(words=VOCABULARY)
        self.observation_space = FreeText(MAX_CHARS, words=VOCABULARY)
        self._site: Site | None = None

    @property
    def site(self) -> Site:
        """The current instance.

        Raises:
            RuntimeError: before the first reset.
        """
        if self._site is None:
            raise RuntimeError("turnwise/Site-v0 was stepped before its first reset")
        return self._site

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        """Draw an instance of ``options["split"]`` (default ``train``)."""
        super().reset(seed=seed)
        split = (options or {}).get("split", "train")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of turnwise/Site-v0; choose from {', '.join(SPLITS)}")
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        self._site = draw(number, split, self.family)
        self._page = HOME
        self._visited: list[str] = []
        self._filled: list[str] = []
        self._logged_in = False
        self._earned: set[str] = set()
        self._over = False
        return f"{self._site.task} {self._view()}", self._info(True, {})

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        """Apply one action's text."""
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
            case ["click", "submit"] if self._page == FORM:
                note = self._submit(parts)
            case ["click", name] if self._page == HOME and name in self.site.links:
                note = self._open(name, parts)
            case ["fill", field, value] if self._page == FORM and value in _VALUES and self._open_field(field):
                note = self._fill(field, value, parts)
        if note == "invalid":
            parts["invalid"] = INVALID
        text = f"{note} {self._view()}" if note else self._view()
        return text, sum(parts.values()), False, False, self._info(note != "invalid", parts)

    def _open_field(self, field: str) -> bool:
        return field in FIELDS and field not in self._filled

    def _earn(self, name: str, parts: dict[str, float]) -> None:
        if name not in self._earned:
            self._earned.add(name)
            parts[name] = STEP_REWARD

    def _at_goal(self) -> bool:
        return self._page == self.site.target

    def _open(self, name: str, parts: dict[str, float]) -> str:
        self._page = FORM if self.site.family == "login" and not self._logged_in else name
        if name in self._visited:
            self._visited.remove(name)
        self._visited.append(name)
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
        if len(self._filled) < len(FIELDS):
            return "wrong"
        self._logged_in = True
        self._page = self._visited[-1]
        self._earn("login", parts)
        if self._at_goal():
            self._earn("goal", parts)
        return "welcome"

    def _end(self, success: bool) -> tuple[Obs, float, bool, bool, Info]:
        self._over = True
        parts = {"success": 1.0} if success else {"wrong": WRONG}
        info = self._info(True, parts)
        info["success"] = success
        return "right" if success else "wrong", sum(parts.values()), True, False, info

    def _view(self) -> str:
        site = self.site
        if self._page == HOME:
            new = [link for link in site.links if link not in self._visited]
            return " ".join(["click", *new, *(["visited", *self._visited] if self._visited else []), HOME])
        if self._page == FORM:
            return " ".join([*(element for element in site.form if element not in self._filled), FORM])
        if site.family == "find":
            price = site.prices[site.links.index(self._page)]
            return f"{self._page} {site.item} {price} {'confirmed' if self._at_goal() else 'rumour'}"
        return f"{self._page} page"

    def _info(self, valid: bool, parts: dict[str, float]) -> Info:
        key = f"{self._page}|{','.join(sorted(self._visited))}|{','.join(sorted(self._filled))}|{self._logged_in:d}"
        return {"step_valid": valid, "state_key": key, "env_error": None, "success": False, "reward_parts": parts}

    def valid_actions(self) -> list[tuple[str, float]]:
        """What applies on this page; ending the episode has half the weight."""
        site = self.site
        done = [] if site.family == "find" else [("done", 0.5)]
        if self._page == HOME:
            return [(f"click {link}", 1.0) for link in self.site.links] + done
        actions = [("back", 1.0), *done]
        if self._page == FORM:
            actions.append(("click submit", 1.0))
            open_fields = [field for field in FIELDS if field not in self._filled]
            actions += [(f"fill {field} {value}", 1.0) for field in open_fields for value in site.secrets]
        elif site.family == "find":
            actions.append((f"answer {site.prices[site.links.index(self._page)]}", 0.5))
        return actions

    def oracle(self) -> str:
        """The right next action of one who reads every page: it knows nothing the pages have not shown."""
        site = self.site
        if self._page == FORM:
            for element in site.form:
                if self._open_field(element):
                    return f"fill {element} {site.secrets[FIELDS.index(element)]}"
            return "click submit"
        if self._page != HOME:
            if not self._at_goal():
                return "back"
            return f"answer {site.prices[site.links.index(self._page)]}" if site.family == "find" else "done"
        if site.family == "find" and site.target not in self._visited:
            return f"click {next(link for link in self.site.links if link not in self._visited)}"
        return f"click {site.target}"

    def vocabulary(self) -> list[str]:
        """The closed set of words of every observation and valid action."""
        return list(VOCABULARY)
