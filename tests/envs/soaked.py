"""Mark parameters that only `make soak` runs; CI keeps a case of every kind."""

from collections.abc import Iterable

import pytest


def soaked_but(kept: Iterable[str], cases: Iterable[str]) -> list[object]:
    """Return the cases as parameters, of which all but ``kept`` run in the soak only.

    Raises:
        ValueError: one of ``kept`` is no case.
    """
    kept, cases = tuple(kept), tuple(cases)
    if unknown := set(kept) - set(cases):
        raise ValueError(f"no cases: {sorted(unknown)}")
    return [case if case in kept else pytest.param(case, marks=pytest.mark.soak) for case in cases]
