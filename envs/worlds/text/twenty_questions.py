"""``turnwise/TwentyQuestions-v0``: find a thing in a list by its name, or by yes-or-no questions about properties.

An action names one thing of the list, which guesses it, or one property, which asks for it. Levels: 5 things in 3
turns and 8 things in 4, where each answer lists the things that are left; 12 things in 6 turns, where it does not.
Reward: 1 for the thing; up to 0.4 for the share of the things that the turns ruled out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from ...draws import NoInstance, SeededDraws, words
from ...episode import Turn
from .base import LanguageEnv, Puzzle
from .reading import names

NARROWED_REWARD = 0.4
SIZES = (5, 8, 12)
TURNS = (3, 4, 6)
HIDDEN = 3
"""The level whose answers do not list the things that are left."""
PROPERTIES = {
    "animal": ("animal", "animals", "alive"),
    "food": ("food", "eat", "edible"),
    "wings": ("wings", "wing", "fly"),
    "wheels": ("wheels", "wheel"),
    "big": ("big", "large"),
    "water": ("water", "swim"),
    "yellow": ("yellow",),
}
THINGS = words("""
    dog cat mouse horse elephant camel owl eagle bat whale shark goldfish crab canary apple onion bread banana lemon
    bike cart bus truck airplane canoe ship ferry hammer spoon key
""")
HAVE = {
    "animal": words("dog cat mouse horse elephant camel owl eagle bat whale shark goldfish crab canary"),
    "food": words("apple onion bread banana lemon"),
    "wings": words("owl eagle bat canary airplane"),
    "wheels": words("bike cart bus truck airplane"),
    "big": words("horse elephant camel whale shark bus truck airplane ship ferry"),
    "water": words("whale shark goldfish crab canoe ship ferry"),
    "yellow": words("canary banana lemon"),
}
"""The things that have each property."""


@dataclass(frozen=True, slots=True)
class TwentyQuestions(Puzzle):
    """The things in the order of the list, the secret one, and those that are left."""

    things: tuple[str, ...]
    secret: str
    left: tuple[str, ...]
    level: int

    @classmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw the list and the thing. Raises NoInstance: the best questions do not find the thing within the turns."""
        things = draws.sample(THINGS, SIZES[level - 1])
        puzzle = cls(things, draws.choice(things), things, level)
        if puzzle._turns_needed() > TURNS[level - 1]:
            raise NoInstance
        return puzzle

    def _turns_needed(self) -> int:
        at, turns = self, 1
        while (action := at.oracle()) != at.secret:
            at, turns = at.turn(action)[0], turns + 1
        return turns

    @property
    def key(self) -> str:
        """Name the list and the thing."""
        return f"{' '.join(sorted(self.things))}: {self.secret}"

    @property
    def state(self) -> str:
        """Name the things that are left."""
        return " ".join(self.left)

    def opening(self) -> str:
        """Return the properties and the list."""
        return self._rules(shown=True)

    def _rules(self, *, shown: bool) -> str:
        return f"Properties: {', '.join(self._properties())}. {self._question(shown=shown)}"

    def _question(self, *, shown: bool) -> str:
        return f"Which thing is it: {', '.join(self.left)}?" if shown or self.level < HIDDEN else "Which thing is it?"

    def _properties(self) -> list[str]:
        """Return the properties that some things of the list have and others lack."""
        return [name for name in PROPERTIES if 0 < sum(each in HAVE[name] for each in self.things) < len(self.things)]

    def turn(self, text: str) -> tuple[Self, Turn]:
        """Guess a thing, or answer a question about a property."""
        forms: dict[str, Sequence[str]] = {thing: (thing, f"{thing}s") for thing in self.things}
        forms |= {name: PROPERTIES[name] for name in self._properties()}
        match names(text, forms):
            case [name] if name == self.secret:
                after = replace(self, left=(name,))
                return after, Turn(f"Yes, it is the {name}!", self._earned(after), over=True, success=True)
            case [name] if name in self.things:
                return self._answered(f"No, not the {name}.", [each for each in self.left if each != name])
            case [name]:
                has = self.secret in HAVE[name]
                left = [each for each in self.left if (each in HAVE[name]) == has]
                return self._answered(f"{name.capitalize()}: {'yes' if has else 'no'}.", left)
        return self, Turn(f"Write only one word. {self._rules(shown=False)}", valid=False)

    def _answered(self, text: str, left: Sequence[str]) -> tuple[Self, Turn]:
        after = replace(self, left=tuple(left))
        return after, Turn(f"{text} {after._question(shown=False)}", self._earned(after))

    def _earned(self, after: Self) -> dict[str, float]:
        ruled_out = len(self.left) - len(after.left)
        return {"narrowed": NARROWED_REWARD * ruled_out / (len(self.things) - 1)} if ruled_out else {}

    def oracle(self) -> str:
        """Return the property that splits the things that are left most evenly; a thing if at most two are left."""

        def imbalance(name: str) -> int:
            return abs(2 * sum(each in HAVE[name] for each in self.left) - len(self.left))

        best = min(self._properties(), key=imbalance, default="")
        if len(self.left) <= 2 or not best or imbalance(best) == len(self.left):
            return self.left[0]
        return best

    def actions(self) -> list[str]:
        """Return the things that are left and the properties."""
        return [*self.left, *self._properties()]


class TwentyQuestionsEnv(LanguageEnv):
    """Find a thing in a list by questions."""

    name = "turnwise/TwentyQuestions-v0"
    puzzle = TwentyQuestions
    turns = TURNS
    rules = (
        "Find the secret thing in {turns} turns. Reply with only one word: the thing, or a property to "
        "ask if the thing has it. For example: bottle"
    )
