"""How old a token is, in updates, and the sweep that keeps the bound.

Admission bounds the mean lag only: a straggler can be older. So when a batch is assembled each token is measured
against the update about to be made; those past the bound get weight 0, their trajectory stays in its group's
baseline, and a group left with no token to train on expires.
"""

from collections.abc import Mapping, Sequence

from ...records import NO_VERSION, PolicyVersion

UNKNOWN = 1 << 30
"""Staleness of a token whose version is not in the surviving history: beyond any bound."""


def staleness(versions: Sequence[int], history: Mapping[int, PolicyVersion], update: int) -> list[int]:
    """Updates between each token's version and ``update``, the one being updated; -1 for a token no policy sampled."""
    age = {
        version: UNKNOWN if version not in history or history[version].abandoned else update - history[version].update
        for version in set(versions)
    }
    age[NO_VERSION] = -1
    return [age[version] for version in versions]


def sweep(ages: Sequence[int], mask: Sequence[int], bound: int) -> list[float]:
    """Weights of a sample's tokens: 1 where sampled and no older than ``bound``, else 0."""
    return [1.0 if bit and 0 <= age <= bound else 0.0 for age, bit in zip(ages, mask, strict=True)]
