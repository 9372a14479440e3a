"""Build the training samples of a trajectory, one per root-to-leaf path of its message tree, and sweep stale tokens.

Pure. The tokens to train on are those of actions: tokens that the policy sampled, and whole turns from elsewhere (an
expert, a patch). A message on several paths (before a branch point) is trained on once, in the first path that contains
it. In the other paths its tokens are context. All messages of a turn are trained on (``turn_of_messages``).

Admission bounds the mean lag only: a token of a long episode may be older. When a batch is assembled, the staleness of
each token is therefore compared with the bound:

* A token beyond the bound gets weight 0.
* A token that no version sampled, such as an expert's, is never stale.
* Its trajectory stays in the baseline of its group.
* A group without a token to train on expires.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...records import NO_VERSION, Message, PolicyVersion, Sample, SampleImage, Source, Trajectory
from ..algorithms.groups import action_tokens, turn_of_messages
from ..algorithms.losses.base import SOURCES


def paths(messages: Sequence[Message]) -> list[list[Message]]:
    """Return the root-to-leaf paths, in the order of their leaves."""
    by_index = {message.index: message for message in messages}
    parents = {message.parent for message in messages}
    found = []
    for leaf in messages:
        if leaf.index in parents:
            continue
        path, node = [leaf], leaf
        while node.parent is not None:
            node = by_index[node.parent]
            path.append(node)
        found.append(path[::-1])
    return found


def _source(message: Message, trajectory: Trajectory) -> int:
    """Return the index of a message's source: its own, or that of the trajectory if its own is the policy."""
    return SOURCES.index(trajectory.source if message.source is Source.POLICY else message.source)


def without_images(message: Message) -> Sequence[SampleImage]:
    """Place no images: the sample is read, and not computed."""
    return ()


def samples(
    trajectory: Trajectory, images: Callable[[Message], Sequence[SampleImage]] = without_images
) -> list[Sample]:
    """Return the samples of a trajectory that contain a token to train on.

    The messages of the turns before ``branched_at`` are trained on in the parent, and are context here.

    Messages after the last action, such as an observation without an answer, are dropped.

    Args:
        images: returns the images of a message that has some; their offsets count from its first token.
    """
    first_turn = trajectory.branched_at or 0
    turn_of = {index: turn for index, turn in turn_of_messages(trajectory).items() if turn >= first_turn}
    positions = _positions(trajectory.messages, turn_of)
    trained: set[int] = set()
    found = []
    for path in paths(trajectory.messages):
        while path and not np.any(action_tokens(path[-1])):
            path = path[:-1]
        if not path:
            continue
        sizes = [len(message.tokens) for message in path]
        turns = [turn_of.get(message.index, -1) for message in path]
        fresh = [turn >= 0 and message.index not in trained for turn, message in zip(turns, path, strict=True)]
        trained.update(message.index for message in path)
        acted = np.concatenate([action_tokens(message) for message in path])
        trained_here = acted & np.repeat(np.asarray(fresh, np.bool_), sizes)
        if trained_here.any():
            sampled = np.concatenate([np.asarray(message.mask, np.uint8) for message in path])
            authors = np.repeat([_source(message, trajectory) for message in path], sizes)
            found.append(
                Sample(
                    trajectory.id,
                    np.concatenate([np.asarray(message.tokens, np.int32) for message in path]),
                    sampled * trained_here,
                    np.concatenate([np.asarray(message.logprobs, np.float32) for message in path]),
                    np.concatenate([np.asarray(message.versions, np.int32) for message in path]),
                    np.where(acted, np.repeat(np.asarray(turns, np.int32), sizes), np.int32(-1)),
                    np.concatenate([positions[message.index] for message in path]),
                    np.where(trained_here, authors, -1).astype(np.int8),
                    list(_images(path, images)),
                )
            )
    return found


def _images(path: Sequence[Message], images: Callable[[Message], Sequence[SampleImage]]) -> Iterator[SampleImage]:
    """Yield the images of a path, with their offsets in it."""
    start = 0
    for message in path:
        if message.images:
            yield from (replace(one, offset=start + one.offset) for one in images(message))
        start += len(message.tokens)


def _positions(messages: Sequence[Message], turn_of: Mapping[int, int]) -> dict[int, NDArray[np.int32]]:
    """Return per message the positions of its action tokens among those of its turn, -1 for its other tokens."""
    counts, found = Counter[int](), {}
    for message in messages:
        turn, acted = turn_of.get(message.index, -1), action_tokens(message)
        places = counts[turn] + np.cumsum(acted, dtype=np.int32) - 1
        found[message.index] = np.where(acted & (turn >= 0), places, -1).astype(np.int32)
        counts[turn] += int(np.count_nonzero(acted))
    return found


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
