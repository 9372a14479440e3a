"""Instances of ``turnwise/TextSite-v0``: the site, the task and the words of a seed.

An instance is a pure function of (seed, split, family). A combination (item and price; user and password; target and
set of links) decides by itself whether it is held out, so the two splits share no combination for any seed.
"""

from dataclasses import dataclass

from ..draws import SeededDraws, draw_for, held_out, words

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
