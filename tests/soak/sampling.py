"""Cases of a parametrized test of which a commit meets a sample, and ``make soak`` all."""

from collections.abc import Sequence
from typing import Any

import pytest


def in_soak(*cases: Any) -> list[Any]:
    """Return cases that only the soak meets; a tuple has one value per argument of the test."""
    return [pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.soak) for one in cases]


def crossed(cases: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return each case with each of ``others``: per commit with one of them, which takes turns."""
    pairs = [
        (i % len(others) == j, (*(one if isinstance(one, tuple) else (one,)), other))
        for i, one in enumerate(cases)
        for j, other in enumerate(others)
    ]
    return [pytest.param(*pair, marks=() if kept else pytest.mark.soak) for kept, pair in pairs]
