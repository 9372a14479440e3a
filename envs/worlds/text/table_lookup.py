"""``turnwise/TableLookup-v0``: answer a question about a small table whose rows are read one by one.

An action with one number answers; an action without a number that names one row reads the row. Levels: three rows with
one column; five rows with three columns; the largest value of a column in four rows, where no answer repeats the
question. Reward: 1 for the answer; up to 0.3 for reading the rows that the question needs, each once; -0.1 for a wrong
answer.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from ...draws import SeededDraws, words
from ...episode import Turn
from .base import WRONG_REWARD, LanguageEnv, Puzzle
from .reading import names, numbers

READ_REWARD = 0.3
ROWS = words("lamp desk rug clock vase kettle pan fork plate drill saw rope tent boat")
COLUMNS = ("price", "stock", "weight", "height", "width")
SIZES = ((3, 1), (5, 3), (4, 2))
"""Rows and columns, per level."""
LARGEST = 3
"""The level that asks for the largest value of a column."""


@dataclass(frozen=True, slots=True)
class TableLookup(Puzzle):
    """A table, the question, the rows that it needs, and the rows that were read."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    """Cells by row and column, all different."""
    column: str
    wanted: tuple[str, ...]
    read: tuple[str, ...] = ()

    @classmethod
    def draw(cls, draws: SeededDraws, level: int) -> Self:
        """Draw the table and the question."""
        height, width = SIZES[level - 1]
        rows, columns = draws.sample(ROWS, height), draws.sample(COLUMNS, width)
        values = draws.sample(range(10, 100), height * width)
        cells = tuple(values[at * width : (at + 1) * width] for at in range(height))
        return cls(rows, columns, cells, draws.choice(columns), rows if level == LARGEST else (draws.choice(rows),))

    @property
    def answer(self) -> int:
        """Return the right answer."""
        at = self.columns.index(self.column)
        return max(self.cells[self.rows.index(row)][at] for row in self.wanted)

    @property
    def question(self) -> str:
        """Return the question."""
        if len(self.wanted) > 1:
            return f"What is the largest {self.column}?"
        return f"What is the {self.column} of the {self.wanted[0]}?"

    @property
    def key(self) -> str:
        """Name the question and its answer."""
        return f"{self.column} {' '.join(sorted(self.wanted))} {self.answer}"

    @property
    def state(self) -> str:
        """Name the rows that were read."""
        return " ".join(sorted(self.read))

    def opening(self) -> str:
        """Return the names of the rows and the question."""
        return f"Rows: {', '.join(self.rows)}. {self.question}"

    def turn(self, text: str) -> tuple[Self, Turn]:
        """Compare a number with the answer, or read a row."""
        again = f" {self.question}" if len(self.wanted) == 1 else ""
        found, row = numbers(text), names(text, {row: (row, f"{row}s") for row in self.rows})
        if found == [self.answer]:
            return self, Turn(f"{self.answer} is right!", over=True, success=True)
        if len(found) == 1 and isinstance(found[0], Fraction):
            return self, Turn(f"{found[0]} is wrong.{again}", {"wrong": WRONG_REWARD})
        if found or len(row) != 1:
            return self, Turn(f"Write the name of a row or a number.{again}", valid=False)
        new = row[0] in self.wanted and row[0] not in self.read
        parts = {"read": READ_REWARD / len(self.wanted)} if new else {}
        after = replace(self, read=(*self.read, row[0])) if row[0] not in self.read else self
        return after, Turn(f"{self._shown(row[0])}.{again}", parts)

    def _shown(self, row: str) -> str:
        cells = self.cells[self.rows.index(row)]
        return f"{row}: " + ", ".join(f"{column} {cell}" for column, cell in zip(self.columns, cells, strict=True))

    def oracle(self) -> str:
        """Return the next row that the question needs, then the answer."""
        return next((row for row in self.wanted if row not in self.read), str(self.answer))

    def actions(self) -> list[str]:
        """Return the rows, and the cells of the rows that were read."""
        seen = [str(cell) for row in self.read for cell in self.cells[self.rows.index(row)]]
        return [*self.rows, *seen]


class TableLookupEnv(LanguageEnv):
    """Look up and answer in a small table."""

    name = "turnwise/TableLookup-v0"
    puzzle = TableLookup
    turns = (4, 4, 6)
    rules = (
        "Answer the question in {turns} turns. Write the name of a row to read it, for example: chair. "
        "When you know the answer, write only the number, for example: 25"
    )
