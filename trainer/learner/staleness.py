"""The age of a token in updates, and the sweep that bounds it.

Admission bounds the mean lag only: one long episode may be older. When a batch is assembled, each token's age is
measured against the update about to be made. Tokens past the bound get weight 0, their trajectory stays in its group's
baseline, and a group without a token to train on expires.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...records import NO_VERSION, PolicyVersion

UNKNOWN_VERSION_STALENESS = 1 << 30
"""Staleness of a token whose version is not in the surviving history: beyond any bound."""


def staleness(versions: NDArray[np.int32], history: Mapping[int, PolicyVersion], update: int) -> NDArray[np.int32]:
    """Return the updates between each token's version and ``update``, the one being updated.

    Args:
        versions: (tokens,) policy version per token.
        history: versions by id, abandoned versions included.
        update: updates done so far.

    Returns:
        (tokens,) ages; -1 where no policy sampled the token.
    """
    ids, index = np.unique(versions, return_inverse=True)
    ages = [_age(int(version), history, update) for version in ids]
    return np.asarray(ages, np.int32)[index]


def _age(version: int, history: Mapping[int, PolicyVersion], update: int) -> int:
    if version == NO_VERSION:
        return -1
    found = history.get(version)
    return UNKNOWN_VERSION_STALENESS if found is None or found.abandoned else update - found.update


def sweep(ages: NDArray[np.int32], mask: NDArray[np.uint8], bound: int) -> NDArray[np.float32]:
    """Return the weight of each token: 1 where it is sampled and no older than ``bound``, else 0. Shape (tokens,)."""
    kept: NDArray[np.bool_] = (mask != 0) & (ages >= 0) & (ages <= bound)
    return kept.astype(np.float32)
