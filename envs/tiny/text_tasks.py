"""Instances of ``turnwise/TextSite-v0``: the site, the task and the words of a seed.

An instance is a pure function of (seed, split, family). Draws use only ``random.Random.random``, the one generator
method that Python promises to keep, so a stored trajectory replays under any later Python. A combination (item and
price; user and password; target and set of links) decides by itself whether it is held out, so the two splits share no
combination for any seed.
"""

import random
import zlib
from dataclasses import dataclass
from typing import TypeVar

FAMILIES = ("find", "login", "open")
HELD_OUT_SHARE = 5
"""One of this many combinations belongs to the test split."""
HELD_OUT_DIAGONALS = 4
"""One of this many diagonals of users and passwords belongs to the test split. With so few combinations, a hash could
hold out nearly all combinations of one word.
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ITEMS = _words("lamp chair desk rug clock vase kettle pan fork plate drill saw hammer rope tent boots")
SECTIONS = _words("tools garden kitchen toys books music sports travel inbox orders help news photos cart")
USERS = _words("max ann bob eva tom liz sam zoe")
PASSWORDS = _words("oak elm fig ash fir yew pine palm")
FIELDS = ("user", "password")
NUMBERS = tuple(str(number) for number in range(10, 100))
GRAMMAR = _words(
    "task find price of open as home page confirmed rumor form filled submit wrong invalid welcome"
    " click fill back answer done ended right"
)
VOCABULARY = GRAMMAR + FIELDS + ITEMS + SECTIONS + USERS + PASSWORDS + NUMBERS

T = TypeVar("T")


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


def _pick(rng: random.Random, options: tuple[T, ...], count: int) -> tuple[T, ...]:
    pool = list(options)
    return tuple(pool.pop(int(rng.random() * len(pool))) for _ in range(count))


def _held_out(*key: str) -> bool:
    return zlib.crc32(" ".join(key).encode()) % HELD_OUT_SHARE == 0


def _find(rng: random.Random, count: int) -> tuple[Site, bool]:
    links = _pick(rng, SECTIONS, count)
    prices = _pick(rng, NUMBERS, count)
    (item,) = _pick(rng, ITEMS, 1)
    at = int(rng.random() * count)
    site = Site("find", f"task find price of {item}", links, links[at], item=item, prices=prices)
    return site, _held_out(item, prices[at])


def _login(rng: random.Random, count: int) -> tuple[Site, bool]:
    links = _pick(rng, SECTIONS, count)
    target = links[int(rng.random() * count)]
    (user,), (password,) = _pick(rng, USERS, 1), _pick(rng, PASSWORDS, 1)
    form = _pick(rng, FIELDS, 2)
    task = f"task open {target} as user {user} password {password}"
    held_out = (USERS.index(user) + PASSWORDS.index(password)) % HELD_OUT_DIAGONALS == 0
    return Site("login", task, links, target, secrets=(user, password), form=form), held_out


def _open(rng: random.Random, count: int) -> tuple[Site, bool]:
    links = _pick(rng, SECTIONS, count)
    target = links[int(rng.random() * count)]
    return Site("open", f"task open {target}", links, target), _held_out(target, *sorted(links))


_BUILD = {"find": _find, "login": _login, "open": _open}


def draw(seed: int, split: str, family: str) -> Site:
    """Return the instance of a seed; ``family`` is one of ``FAMILIES``, or ``mix`` to let the seed choose."""
    rng = random.Random(f"{split} {seed} {family}")  # noqa: S311 - a game, not a secret
    chosen = FAMILIES[int(rng.random() * len(FAMILIES))] if family == "mix" else family
    while True:
        site, held_out = _BUILD[chosen](rng, 3 + int(rng.random() * 3))
        if held_out == (split == "test"):
            return site
