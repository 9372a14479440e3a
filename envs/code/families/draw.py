"""Draw the task of a seed, a split and a family: a pure function of the three."""

from collections.abc import Callable

from ..task import CodeTask
from .boundary import boundary
from .command import command
from .container import container
from .formula import formula
from .ordering import ordering
from .parsing import parsing
from .rename import rename
from .setting import setting
from .state import state
from .words import Words

FAMILIES: dict[str, Callable[[Words], CodeTask]] = {
    "boundary": boundary,
    "command": command,
    "container": container,
    "formula": formula,
    "ordering": ordering,
    "parsing": parsing,
    "rename": rename,
    "setting": setting,
    "state": state,
}
SPLITS = ("train", "test")
MIX = "mix"


def draw(seed: int, split: str, family: str = MIX) -> CodeTask:
    """Return the instance of this seed; for ``mix`` the seed selects the family. The splits share no instance."""
    names = tuple(FAMILIES)
    attempt = 0
    while True:
        words = Words(f"{split} {seed} {family} {attempt}")
        if words.held_out == (split == "test"):
            chosen = words.pick(names) if family == MIX else family
            return FAMILIES[chosen](words)
        attempt += 1
