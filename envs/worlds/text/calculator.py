"""``turnwise/Calculator-v0``: answer a question about numbers with a calculator.

An action with an arithmetic expression, such as ``347 + 589``, uses the calculator; an action with one number answers.
Levels: a sum, difference or product in digits; the same in words; two operations in words. Reward: 1 for the answer;
0.3 once for the expression that computes it; -0.1 for a wrong answer.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Self

from ...draws import SeededDraws
from ...episode import Turn
from .arithmetic import NotComputable, compute, expression, shown
from .base import WRONG_REWARD, LanguageEnv, Puzzle
from .reading import numbers

COMPUTED_REWARD = 0.3
NAMES = ("Ann", "Ben", "Eva", "Leo", "Mia", "Tom")
THINGS = ("apples", "books", "cards", "coins", "pens", "stamps")
ONE_STEP = {
    "+": "{name} has {a} {things} and gets {b} more. How many {things} does {name} have?",
    "-": "{name} has {a} {things} and gives away {b}. How many {things} does {name} have?",
    "*": "{name} has {a} boxes with {b} {things} each. How many {things} does {name} have?",
}
TWO_STEPS = {
    "+": "{name} has {a} boxes with {b} {things} each, and gets {c} more. How many {things} does {name} have?",
    "-": "{name} has {a} boxes with {b} {things} each, and gives away {c}. How many {things} does {name} have?",
}


@dataclass(frozen=True, slots=True)
class Calculator(Puzzle):
    """A question, the expression that answers it, and the last result of the calculator."""

    question: str
    solution: str
    result: Fraction | None = None
    computed: bool = False
    """Whether the calculator showed the answer."""

    @classmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw the numbers, the operation and the words."""
        sign = draws.choice(("+", "-") if level == 3 else ("+", "-", "*"))
        if level == 3:
            a, b, c = draws.integer(11, 29), draws.integer(11, 29), draws.integer(11, 99)
            template, solution = TWO_STEPS[sign], f"{a} * {b} {sign} {c}"
        else:
            a, b, c = draws.integer(11, 99), draws.integer(11, 99), 0
            if sign != "*":
                a, b = draws.integer(500, 999), draws.integer(101, 499)
            template, solution = "What is {a} {sign} {b}?" if level == 1 else ONE_STEP[sign], f"{a} {sign} {b}"
        name, things = draws.choice(NAMES), draws.choice(THINGS)
        return cls(template.format(a=a, b=b, c=c, sign=sign, name=name, things=things), solution)

    @property
    def answer(self) -> Fraction:
        """Return the right answer."""
        return compute(self.solution)

    @property
    def key(self) -> str:
        """Name the numbers and the operations."""
        return self.solution

    @property
    def state(self) -> str:
        """Name the last result."""
        return "" if self.result is None else shown(self.result)

    def opening(self) -> str:
        """Return the question."""
        return self.question

    def turn(self, text: str) -> tuple[Self, Turn]:
        """Compute an expression, or compare a number with the answer."""
        if found := expression(text):
            return self._compute(found)
        match numbers(text):
            case [Fraction() as number] if number == self.answer:
                return self, Turn(f"{shown(number)} is right!", over=True, success=True)
            case [Fraction() as number]:
                return self, Turn(f"{shown(number)} is wrong. {self.question}", {"wrong": WRONG_REWARD})
        return self, Turn(f"Write an expression or a number. {self.question}", valid=False)

    def _compute(self, found: str) -> tuple[Self, Turn]:
        try:
            result = compute(found)
        except NotComputable as error:
            return self, Turn(f"The calculator cannot compute this: {error}. {self.question}", valid=False)
        right = result == self.answer
        parts = {"computed": COMPUTED_REWARD} if right and not self.computed else {}
        after = replace(self, result=result, computed=self.computed or right)
        return after, Turn(f"{found} = {shown(result)}. {self.question}", parts)

    def oracle(self) -> str:
        """Return the expression, then its result."""
        return shown(self.answer) if self.computed else self.solution

    def actions(self) -> list[str]:
        """Return the expressions of the numbers of the question, these numbers, and the last result."""
        operands = self.solution.split()[::2]
        expressions = [
            " ".join([operands[0], *(part for pair in zip(signs, operands[1:], strict=True) for part in pair)])
            for signs in product("+-*", repeat=len(operands) - 1)
        ]
        return list(dict.fromkeys([*expressions, *operands, *([] if self.result is None else [shown(self.result)])]))


class CalculatorEnv(LanguageEnv):
    """Answer a question with a calculator."""

    name = "turnwise/Calculator-v0"
    puzzle = Calculator
    turns = (4, 4, 5)
    rules = (
        "Answer the question in {turns} turns. Write an expression, for example: 12 * 34. The calculator "
        "replies with the result. Then write only the answer, for example: 408"
    )
