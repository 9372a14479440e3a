"""A data set of two capitals, and variants of its environment."""

import asyncio
from typing import Any

from turnwise.envs import DatasetEnv

CAPITALS = [
    {"question": "Capital of France?", "answer": "Paris", "letters": 5},
    {"question": "Capital of Peru?", "answer": "Lima", "letters": 4},
]
TESTS = [{"question": "Capital of Chad?", "answer": "N'Djamena", "letters": 9}]


def correct(action: str, answer: str) -> bool:
    return action.strip() == answer


async def brief(action: str, row: dict[str, Any]) -> float:
    await asyncio.sleep(0)
    return max(0.0, 1 - len(action) / (2 * row["letters"]))


class Capitals(DatasetEnv):
    prompt = "question"
    rubric = {correct: 1.0, brief: 0.5}  # noqa: RUF012
    loads = 0

    def load(self, split: str) -> Any:
        Capitals.loads += 1
        return CAPITALS if split == "train" else TESTS

    def instructions(self) -> str:
        return "Name the city."

    def oracle(self) -> str:
        return str(self.row["answer"])

    def valid_actions(self) -> list[tuple[str, float]]:
        return [(str(row["answer"]), 1.0) for row in CAPITALS]


def kind(source: Any = None, rubric: Any = None) -> DatasetEnv:
    """Return an environment of a class with these rows and reward functions."""
    rows = CAPITALS if source is None else source
    made: Any = type("Made", (Capitals,), {"__module__": __name__, "load": lambda self, split: rows})
    made.rubric = {correct: 1.0} if rubric is None else rubric
    return made()
