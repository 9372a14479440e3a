"""ATIF documents as episodes, of turnwise's own export or of another program.

A document of another program names no environment: its task is given. The observation of a turn is everything that the
user and the environment wrote since the turn before. Its action is the message of the agent, followed by its tool calls
as ``<tool_call>`` lines with JSON. Messages of the system, reasoning and copied context are left out.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from pydantic import ValidationError

from ....base.user_files import UnreadableFile, open_regular_file, read_regular_file, read_regular_text
from ....errors import reason
from ....records import NO_VERSION, Message, Purpose, Role, Source, Status, Step
from ...content.blobs import digest
from ...errors import ExchangeError
from ..checks import MAX_IMAGE_BYTES
from ..episodes import Episode
from .models import AtifStep, ContentPart, Document
from .origin import EpisodeOrigin, TaskOrigin, TurnOrigin, episode_origin, turn_origin

FORMATS = "an import reads ATIF, and the Parquet that `turnwise trajectories export` writes (`--format parquet`)"
NAMESPACE = UUID("0192f6c4-3a51-7c1e-9a55-6d6f1c0f8e11")
"""Namespace of the uids of documents that have none."""
MAX_DOCUMENT = 64 * 2**20
"""Bytes of one document: its values take up to about twenty times that in memory."""
IMAGE_BYTES_MAX = 64 * 2**20
"""Limit of one imported image."""
Content = str | list[ContentPart]


def read_atif(path: Path, task: TaskOrigin | None) -> Iterator[Episode]:
    """Yield the episodes of a document (``.json``), of one document per line (``.jsonl``), or of a folder of documents.

    Args:
        task: the task of the documents that name none.

    Raises:
        ExchangeError: a document is not valid or too large, names no environment, or an image cannot be read.
        UnreadableFile: a file is missing, no regular file, too large or not UTF-8.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ExchangeError(f"the folder `{path}` has no `.json` file")
    for file in files:
        for place, text in _documents(file):
            try:
                yield from_document(Document.model_validate_json(text), file.parent, task)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "the document"
                raise ExchangeError(f"`{place}` is not ATIF: `{where}`: {reason(first)}; {FORMATS}") from error
            except ExchangeError as error:
                raise ExchangeError(f"`{place}`: {error}") from error


def from_document(document: Document, folder: Path, task: TaskOrigin | None) -> Episode:
    """Return the episode of a document whose images are in ``folder`` or below it.

    Raises:
        ExchangeError: the document is of another program and has no turn of an agent, it names no environment and
            ``task`` is None, or a part of it cannot be an observation.
    """
    turns = _Turns(folder)
    for step in document.steps:
        if not step.is_copied_context:
            turns.add(step)
    origin = episode_origin(document.extra)
    last, final_images = turns.content()
    final: str | None = last
    if origin is None:
        if not turns.steps:
            raise ExchangeError("it has no turn of an agent")
        origin = _foreign(document, turns, task)
    elif not (last or final_images or origin.final_observation_hash):
        final = None  # the episode ended before an observation, which is an empty one in the document
    group, trajectory = origin.head()
    screenshot = turns.image(trajectory.final_screenshot) if trajectory.final_screenshot else ""
    trajectory = replace(
        trajectory, final_images=final_images, final_screenshot=screenshot, messages=tuple(turns.messages)
    )
    if final is not None and not trajectory.final_observation_hash:
        trajectory = replace(trajectory, final_observation_hash=text_hash(final))
    return Episode(group, replace(trajectory, steps=tuple(turns.steps)), final, turns.images)


def text_hash(text: str) -> str:
    """Return the hash of an observation whose environment did not compute one: 32 hex digits."""
    return sha256(text.encode(errors="replace")).hexdigest()[:32]


def _documents(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each document of a file, one in memory at a time. Raises ExchangeError."""
    if file.suffix != ".jsonl":
        yield str(file), read_regular_text(file, MAX_DOCUMENT)
        return
    with open_regular_file(file) as lines:
        number = 0
        while line := lines.readline(MAX_DOCUMENT + 1):
            number += 1
            if len(line) > MAX_DOCUMENT:
                raise ExchangeError(f"line {number} of `{file}` has more than {MAX_DOCUMENT:,} bytes")
            if line.strip():
                yield f"{file}:{number}", _decoded(line, f"line {number} of `{file}`")


def _decoded(line: bytes, place: str) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExchangeError(f"{place} is not UTF-8: save the file as UTF-8") from error


@dataclass(slots=True)
class _Turns:
    """The turns of a document so far, with the content that no action answered yet."""

    folder: Path
    pending: list[Content] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    """The hashes of the images that were read, by path."""
    context: list[int] = field(default_factory=list)
    has_tokens: bool = True

    def add(self, step: AtifStep) -> None:
        """Add a step of the document. Raises ExchangeError."""
        if step.source == "user":
            self.pending.append(step.message)
        if step.source != "agent":
            return
        text, images = self.content()
        origin = turn_origin(step.extra) or TurnOrigin(reward=0.0, created_at=_time(step))
        values = {name: getattr(origin, name) for name in TurnOrigin.model_fields}
        values["screenshot"] = self.image(origin.screenshot) if origin.screenshot else ""
        values["observation_hash"] = origin.observation_hash or text_hash(text)
        self._add_tokens(step)
        message = self.messages[-1].index if self.has_tokens else None
        index = len(self.steps)
        made = Step(index=index, observation=text, action=_action(step), message=message, images=images, **values)
        self.steps.append(made)
        results = step.observation.results if step.observation else ()
        self.pending = [result.content for result in results if result.content is not None]

    def content(self) -> tuple[str, tuple[str, ...]]:
        """Return the text and the hashes of the images that are pending. Raises ExchangeError."""
        texts, images = [], []
        for content in self.pending:
            for part in [content] if isinstance(content, str) else content:
                if isinstance(part, str):
                    texts.append(part)
                elif part.text is not None:
                    texts.append(part.text)
                elif part.type == "image" and part.source is not None:
                    images.append(self.image(part.source.path))
                else:
                    raise ExchangeError("it contains audio, which no observation of turnwise can hold")
        return "\n\n".join(texts), tuple(images)

    def image(self, path: str) -> str:
        """Return the hash of an image, which is read once. Raises ExchangeError."""
        if path not in self.read:
            data = _read_image(self.folder, path)
            self.read[path] = digest(data)
            self.images[self.read[path]] = data
            if sum(map(len, self.images.values())) > MAX_IMAGE_BYTES:
                raise ExchangeError(f"its images have more than {MAX_IMAGE_BYTES:,} bytes")
        return self.read[path]

    def _add_tokens(self, step: AtifStep) -> None:
        """Add the messages of a turn; without the token ids of its prompt and completion, drop those of all turns."""
        metrics = step.metrics
        if not self.has_tokens or not metrics or not metrics.prompt_token_ids or not metrics.completion_token_ids:
            self.has_tokens, self.messages = False, []
            self.steps = [replace(step, message=None) for step in self.steps]
            return
        prompt, size = metrics.prompt_token_ids, len(self.context)
        extends = size > 0 and len(prompt) > size and prompt[:size] == self.context
        parent = self.messages[-1].index if extends else None
        self.messages.append(_message(len(self.messages), parent, Role.USER, prompt[size:] if extends else prompt))
        above = self.messages[-1].index
        self.messages.append(_message(above + 1, above, Role.ASSISTANT, metrics.completion_token_ids))
        self.context = [*prompt, *metrics.completion_token_ids]


def _read_image(folder: Path, name: str) -> bytes:
    """Return the content of the file ``name`` in ``folder`` or below it, which need not be an image.

    Raises:
        ExchangeError: the path leaves the folder, or names no regular file of at most ``IMAGE_BYTES_MAX``.
    """
    if "\x00" in name:
        raise ExchangeError(f"the image {name!r} cannot be read: a path has no NUL character")
    path = os.path.realpath(folder / name)
    if not Path(path).is_relative_to(folder.resolve()):
        raise ExchangeError(f"the image `{name}` is outside of the folder of its document; copy it into the folder")
    try:
        return read_regular_file(path, IMAGE_BYTES_MAX)
    except UnreadableFile as error:
        raise ExchangeError(f"the image {error}") from error


def _message(index: int, parent: int | None, role: Role, tokens: Sequence[int]) -> Message:
    size = len(tokens)
    context = Source.TEMPLATE if parent is None else Source.ENV
    source = Source.EXPERT if role is Role.ASSISTANT else context
    try:
        ids = np.array(tokens, np.int32)
    except OverflowError as error:
        raise ExchangeError("a token id does not fit into 32 bits") from error
    mask, versions = np.zeros(size, np.uint8), np.full(size, NO_VERSION, np.int32)
    return Message(index, parent, role, source, ids, mask, np.full(size, np.nan, np.float32), versions)


def _action(step: AtifStep) -> str:
    if not isinstance(step.message, str):
        if any(part.text is None for part in step.message):
            raise ExchangeError(f"the message of step {step.step_id} contains an image or audio; an action is a text")
        text = "\n".join(part.text or "" for part in step.message)
    else:
        text = step.message
    calls = [
        f"<tool_call>\n{json.dumps({'name': call.function_name, 'arguments': call.arguments})}\n</tool_call>"
        for call in step.tool_calls or ()
    ]
    return "\n".join(part for part in (text, *calls) if part)


def _time(step: AtifStep) -> datetime | None:
    if step.timestamp is None:
        return None
    found = datetime.fromisoformat(step.timestamp)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _result(totals: Mapping[str, Any]) -> tuple[float, bool | None]:
    """Return the reward and the verdict of a document's totals: 0 and None if they have none. Raises ExchangeError."""
    paid, verdict = totals.get("reward"), totals.get("success")
    try:
        reward = float(paid) if isinstance(paid, int | float) and not isinstance(paid, bool) else 0.0
    except OverflowError as error:
        raise ExchangeError("`final_metrics.extra.reward` is too large for a number") from error
    return reward, verdict if isinstance(verdict, bool) else None


def _foreign(document: Document, turns: _Turns, task: TaskOrigin | None) -> EpisodeOrigin:
    """Return the origin of a document of another program; reward and verdict are those of its totals, or 0 and none."""
    if task is None:
        raise ExchangeError("it names no environment of turnwise: add `--env ID`, and its `--option`s")
    totals = document.final_metrics.extra if document.final_metrics else None
    reward, verdict = _result(totals or {})
    turns.steps[-1] = replace(turns.steps[-1], reward=reward, terminated=True)
    text = document.model_dump_json(exclude_none=True)
    uid = uuid5(NAMESPACE, sha256(text.encode()).hexdigest())
    session = document.session_id or document.trajectory_id or str(uid)
    size = len(turns.steps)
    return EpisodeOrigin(
        uid=uid,
        task=task,
        purpose=Purpose.EVAL,
        prompt_prefix="",
        max_turns=size,
        max_tokens_per_turn=1,
        max_tokens_per_episode=size,
        max_context=1,
        run=session,
        id=document.trajectory_id or session,
        group=session,
        member=0,
        attempt=0,
        status=Status.COMPLETED,
        source=Source.EXPERT,
        policy=document.agent.name,
        reward=reward,
        success=verdict,
        error="",
        stop_reason="",
        reached=None,
        deterministic=False,
        final_observation_hash="",
        extras={"agent": {"name": document.agent.name, "version": document.agent.version}},
    )
