"""Compute the staleness of each token in updates, and exclude the tokens that exceed the bound.

Admission bounds the mean lag only: a token of a long episode may be older. When a batch is assembled, the staleness of
each token is therefore compared with the bound:

* A token beyond the bound gets weight 0.
* A token that no version sampled, such as an expert's, is never stale.
* Its trajectory stays in the baseline of its group.
* A group without a token to train on expires.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...records import NO_VERSION, PolicyVersion

UNKNOWN_VERSION_STALENESS = 1 << 30
"""Staleness of a token whose version is not in the surviving history: larger than any bound."""


def staleness(versions: NDArray[np.int32], history: Mapping[int, PolicyVersion], update: int) -> NDArray[np.int32]:
    """Return the number of updates between each token's version and the version being updated.

    Args:
        versions: (tokens,) policy version per token.
        history: versions by id, abandoned versions included.
        update: updates done so far, which is the update number of the version being updated.

    Returns:
        (tokens,) staleness in updates; -1 where no policy sampled the token.
    """
    ids, index = np.unique(versions, return_inverse=True)
    ages = [_age(int(version), history, update) for version in ids]
    return np.asarray(ages, np.int32)[index]


def _age(version: int, history: Mapping[int, PolicyVersion], update: int) -> int:
    if version == NO_VERSION:
        return -1
    found = history.get(version)
    return UNKNOWN_VERSION_STALENESS if found is None or found.abandoned else update - found.update


def sweep(
    ages: NDArray[np.int32], trainable: NDArray[np.bool_] | NDArray[np.uint8], max_staleness: int
) -> NDArray[np.float32]:
    """Return 1 per trainable token of at most ``max_staleness`` updates, and 0 per other token. Shape (tokens,)."""
    kept: NDArray[np.bool_] = (trainable != 0) & (ages <= max_staleness)
    return kept.astype(np.float32)
