"""Checks of an episode of a file: its parts fit together, and its values fit into the columns of the store."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from math import isfinite

from ...records import SPLITS, Message, Status, Trajectory
from ..content.blobs import digest
from ..errors import ExchangeError
from .episodes import Episode, image_hashes
from .images import image_problem

HASH = re.compile(r"(?:[0-9a-f]{2}){0,32}")
"""A hash in hex; empty for none."""
MAX_INT, MAX_SEED = 2**31 - 1, 2**63 - 1
MAX_TEXT = 16 << 20
"""Characters of an observation, an action or an error."""
MAX_TOKENS = 2**22
"""Tokens of the messages of one trajectory."""
MAX_IMAGE_BYTES = 512 * 2**20
"""Bytes of the images of one trajectory."""


def check(episode: Episode) -> None:
    """Check an episode of a file.

    Raises:
        ExchangeError: the episode has not ended, its parts do not fit together, a value is out of range, or the content
            of an image is missing or altered.
    """
    for problem in _problems(episode):
        raise ExchangeError(f"trajectory {episode.trajectory.id!r}: {problem}")


def _problems(episode: Episode) -> Iterator[str]:
    one = episode.trajectory
    if one.uid is None:
        yield "it has no uid"
    if one.status is Status.RUNNING:
        yield "it has not ended"
    if [step.index for step in one.steps] != list(range(len(one.steps))):
        yield "its steps do not count up from 0"
    yield from _message_problems(one)
    yield from _value_problems(episode)
    for image in image_hashes(one):
        if image not in episode.images:
            yield "the content of an image is missing: export it again without `--no-images`"
        elif digest(episode.images[image]) != image:
            yield f"the content of the image {image[:12]} has another hash"
        elif problem := image_problem(episode.images[image]):
            yield f"the image {image[:12]} {problem}"


def _message_problems(one: Trajectory) -> Iterator[str]:
    seen: dict[int | None, Message] = {}
    if (tokens := sum(len(message.tokens) for message in one.messages)) > MAX_TOKENS:
        yield f"it has {tokens:,} tokens; the limit is {MAX_TOKENS:,}"
    if [message.index for message in one.messages] != list(range(len(one.messages))):
        yield "its messages do not count up from 0"
    for message in one.messages:
        if len(message.tokens) and not 0 <= min(message.tokens) <= max(message.tokens) <= MAX_INT:
            yield f"message {message.index} has a token id that is out of range"
        if message.index in seen or (message.parent is not None and message.parent not in seen):
            yield f"message {message.index} is not after its parent, or occurs twice"
        if not 0 <= message.index <= MAX_INT:
            yield f"the index {message.index} of a message is out of range"
        seen[message.index] = message
    for step in one.steps:
        if step.message is not None and step.message not in seen:
            yield f"step {step.index} names a message that is missing"


def _value_problems(episode: Episode) -> Iterator[str]:
    one, group = episode.trajectory, episode.group
    if not all(0 <= value <= MAX_INT for value in astuple(group.horizon)) or not 0 <= group.task.seed <= MAX_SEED:
        yield "a limit of its horizon or the seed of its task is out of range"
    if group.task.split not in SPLITS:
        yield f"the split of its task is {group.task.split!r}, not one of {', '.join(SPLITS)}"
    mappings = [group.task.options, one.extras, *(step.reward_parts for step in one.steps)]
    if not all(isinstance(value, Mapping) for value in mappings):
        yield "its options, extras or reward parts are not a JSON object"
    names = [group.task.env_id, group.task.env_version, one.policy, *(step.agent for step in one.steps)]
    if any("\x00" in name for name in names):
        yield "a name has a NUL character"
    texts = [one.error, episode.final_observation or "", *(step.observation for step in one.steps)]
    if max(map(len, [*texts, *(step.action for step in one.steps)])) > MAX_TEXT:
        yield f"a text has more than {MAX_TEXT:,} characters"
    hashes = [one.final_observation_hash, *(step.observation_hash for step in one.steps)]
    if not all(map(HASH.fullmatch, hashes)):
        yield "the hash of an observation is not in hex"
    times = [value for step in one.steps for value in (step.model_ms, step.env_ms)]
    rewards = [step.reward for step in one.steps]
    if not all(map(isfinite, [one.reward, *times, *rewards])):
        yield "a reward or a duration is not finite"
