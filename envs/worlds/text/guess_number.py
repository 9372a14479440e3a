"""``turnwise/GuessNumber-v0``: find a secret number; each guess is answered with "higher" or "lower".

Levels: 6 numbers in 3 guesses, where each answer lists the numbers that are left; 14 in 4, where it states their range;
30 in 5, where it does not. The middle of the numbers that are left always succeeds. Reward: 1 for the number; up to 0.4
for the share of the numbers that the guesses ruled out.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from ...draws import SeededDraws
from ...episode import Turn
from .base import LanguageEnv, Puzzle
from .reading import numbers

WIDTHS = (6, 14, 30)
LISTED, RANGED = 1, 2
"""The levels whose answers list the numbers that are left, or state their range."""
NARROWED_REWARD = 0.4


@dataclass(frozen=True, slots=True)
class GuessNumber(Puzzle):
    """A secret from ``low`` to ``high``; the guesses so far leave ``at_least`` to ``at_most``."""

    secret: int
    low: int
    high: int
    at_least: int
    at_most: int
    level: int

    @classmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw the range and the secret."""
        width = WIDTHS[level - 1]
        low = draws.integer(30, 99)
        high = low + width - 1
        return cls(draws.integer(low, high), low, high, low, high, level)

    @property
    def key(self) -> str:
        """Name the range and the secret."""
        return f"{self.low} {self.high} {self.secret}"

    @property
    def state(self) -> str:
        """Name the numbers that are left."""
        return f"{self.at_least} {self.at_most}"

    def opening(self) -> str:
        """Show the numbers."""
        return self._request(shown=True)

    def _request(self, *, shown: bool) -> str:
        if self.level == LISTED:
            left = ", ".join(str(number) for number in range(self.at_least, self.at_most + 1))
            return f"Choose one number: {left}."
        if self.level == RANGED or shown:
            return f"Choose one number from {self.at_least} to {self.at_most}."
        return "Choose one number."

    def turn(self, text: str) -> tuple[Self, Turn]:
        """Compare the only number of the text with the secret."""
        match numbers(text):
            case [Fraction() as guess] if self.low <= guess <= self.high and guess.denominator == 1:
                return self._guessed(int(guess))
            case _:
                return self, Turn(f"Write only a number. {self._request(shown=False)}", valid=False)

    def _guessed(self, guess: int) -> tuple[Self, Turn]:
        if guess == self.secret:
            after = replace(self, at_least=guess, at_most=guess)
            return after, Turn(f"{guess} is right!", self._earned(after), over=True, success=True)
        if guess < self.secret:
            after, hint = replace(self, at_least=max(self.at_least, guess + 1)), "Higher."
        else:
            after, hint = replace(self, at_most=min(self.at_most, guess - 1)), "Lower."
        return after, Turn(f"{hint} {after._request(shown=False)}", self._earned(after))

    def _earned(self, after: Self) -> dict[str, float]:
        ruled_out = (self.at_most - self.at_least) - (after.at_most - after.at_least)
        return {"narrowed": NARROWED_REWARD * ruled_out / (self.high - self.low)} if ruled_out else {}

    def oracle(self) -> str:
        """Return the middle of the numbers that are left."""
        return str((self.at_least + self.at_most) // 2)

    def actions(self) -> list[str]:
        """Return every number of the range."""
        return [str(number) for number in range(self.low, self.high + 1)]


class GuessNumberEnv(LanguageEnv):
    """Guess a number by higher and lower."""

    name = "turnwise/GuessNumber-v0"
    puzzle = GuessNumber
    turns = (3, 4, 5)
    rules = (
        "Guess the secret number in {turns} turns. After each guess you read if it is higher or lower. "
        "Reply with only a number, for example: 25"
    )
