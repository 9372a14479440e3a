"""Episodes as documents of the Agent Trajectory Interchange Format (ATIF), one file per trajectory in a folder.

The first observation is a message of the user; every later one is the observation of the turn before. A turn that the
policy sampled in one call has its token ids, those of its whole prompt, and its log-probabilities. ``origin`` holds the
rest. A lone surrogate, which JSON cannot hold, becomes a question mark.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from .... import __version__
from ....records import NO_VERSION, Message, Step
from ...content.blobs import digest
from ...errors import ExchangeError
from ..chat import SystemPrompt, encodable
from ..episodes import Episode
from ..images import SUFFIXES, ImageType, image_type
from .models import (
    AtifAgent,
    AtifStep,
    ContentPart,
    Document,
    FinalMetrics,
    ImageSource,
    Metrics,
    Observation,
    ObservationResult,
)
from .origin import EpisodeOrigin, TurnOrigin, extra_of

AGENT = "turnwise"
"""Name of the agent in the documents."""
IMAGES = "images"
"""Name of the folder of the images, in the folder of the documents."""


class AtifFolder:
    """Writes a folder with a document per trajectory, named by its uid, and the images that the documents name."""

    def __init__(self, folder: Path, system: SystemPrompt) -> None:
        folder.mkdir()
        self._folder = folder
        self._system = system

    def add(self, episode: Episode) -> None:
        """Write one document. Raises ExchangeError: an image has an unknown format."""
        document = to_document(episode, self._system(episode.group), self._folder)
        values = document.model_dump(mode="json", exclude_none=True)
        (self._folder / f"{episode.uid}.json").write_text(json.dumps(values, allow_nan=False), encoding="utf-8")

    def close(self) -> None:
        """Do nothing: every document is whole."""


def to_document(episode: Episode, system: str, folder: Path) -> Document:
    """Return the document of an episode; the content of its images is written below ``folder``.

    Raises:
        ExchangeError: an image has an unknown format.
    """
    one = episode.trajectory
    steps: list[AtifStep] = []

    def content(text: str, images: Sequence[str]) -> str | list[ContentPart]:
        parts = []
        for name in images:
            if name in episode.images:
                kind, path = _write_image(folder, episode.images[name])
                parts.append(ContentPart(type="image", source=ImageSource(media_type=kind, path=path)))
        return [ContentPart(type="text", text=encodable(text)), *parts] if parts else encodable(text)

    def path(screenshot: str) -> str:
        return _write_image(folder, episode.images[screenshot])[1] if screenshot in episode.images else ""

    prompt = "\n\n".join(part for part in (episode.group.prompt_prefix, system) if part)
    if prompt:
        steps.append(AtifStep(step_id=1, source="system", message=encodable(prompt)))
    last = (episode.final_observation, one.final_images)
    seen = [*((step.observation, step.images) for step in one.steps), last]
    steps.append(AtifStep(step_id=len(steps) + 1, source="user", message=content(seen[0][0] or "", seen[0][1])))
    sampled = _sampled(one.steps, one.messages)
    for step, calls in zip(one.steps, sampled, strict=True):
        text, images = seen[step.index + 1]
        results = [] if text is None else [ObservationResult(content=content(text, images))]
        steps.append(
            AtifStep(
                step_id=len(steps) + 1,
                timestamp=step.created_at.isoformat() if step.created_at else None,
                source="agent",
                message=encodable(step.action),
                observation=Observation(results=results) if results else None,
                metrics=_metrics(calls, one.messages),
                llm_call_count=len(calls) or None,
                extra=extra_of(TurnOrigin.of(replace(step, screenshot=path(step.screenshot)))),
            )
        )
    tokens = [int(np.sum(np.asarray(message.mask))) for calls in sampled for message in calls]
    totals: dict[str, JsonValue] = {"reward": one.reward, "success": one.success, "status": one.status.value}
    return Document(
        session_id=one.run,
        trajectory_id=episode.uid,
        agent=AtifAgent(name=AGENT, version=__version__, model_name=one.policy or None),
        steps=steps,
        final_metrics=FinalMetrics(
            total_completion_tokens=sum(tokens) if tokens else None, total_steps=len(steps), extra=totals
        ),
        extra=extra_of(EpisodeOrigin.of(episode.group, replace(one, final_screenshot=path(one.final_screenshot)))),
    )


def _write_image(folder: Path, data: bytes) -> tuple[ImageType, str]:
    """Write an image once below ``folder``, and return its media type and its path in ``folder``.

    Raises:
        ExchangeError: the format is unknown.
    """
    kind = image_type(data)
    if kind is None:
        raise ExchangeError("an image is neither PNG, JPEG, GIF nor WebP: export with `--no-images`")
    name = f"{IMAGES}/{digest(data)}{SUFFIXES[kind]}"
    path = folder / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return kind, name


def _sampled(steps: Sequence[Step], messages: Sequence[Message]) -> list[list[Message]]:
    """Return, per step, the messages of its turn that the policy sampled."""
    found, first = [], 0
    for step in steps:
        last = first if step.message is None else step.message + 1
        found.append(
            [message for message in messages if first <= message.index < last and np.any(np.asarray(message.mask))]
        )
        first = last
    return found


def _metrics(calls: Sequence[Message], messages: Sequence[Message]) -> Metrics | None:
    """Return the tokens of a turn; token ids only if the turn is one call of the policy."""
    if not calls:
        return None
    masks = [np.asarray(call.mask) == 1 for call in calls]
    total = int(sum(mask.sum() for mask in masks))
    if len(calls) > 1:
        return Metrics(completion_tokens=total)
    one, mask = calls[0], masks[0]
    prompt = _context(one, messages)
    versions = sorted({int(version) for version in np.asarray(one.versions)[mask]} - {NO_VERSION})
    return Metrics(
        prompt_tokens=len(prompt),
        completion_tokens=total,
        prompt_token_ids=prompt,
        completion_token_ids=[int(token) for token in np.asarray(one.tokens)[mask]],
        logprobs=[float(value) for value in np.asarray(one.logprobs, np.float32)[mask]],
        extra={"policy_versions": [*versions]},
    )


def _context(message: Message, messages: Sequence[Message]) -> list[int]:
    """Return the token ids of all ancestors of a message, in order."""
    by_index = {message.index: message for message in messages}
    path, at = [], message.parent
    while at is not None:
        path.append(by_index[at])
        at = by_index[at].parent
    return [int(token) for one in reversed(path) for token in one.tokens]
