"""Episodes as files of their own: a page that opens without a network and without the viewer, and JSON.

A page brings its style and its pictures, and its content security policy allows nothing else: no script, no address.
Both hold the same record. Like every export, they are made of scrubbed texts.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ...agents.rollout.progress import TARGETS
from ...records import Step
from ...store import queries
from ...store.database import Database
from ...store.errors import ExchangeError
from ...store.exchange.episodes import Episode
from ...store.exchange.images import image_type
from ...store.exchange.scrubbing import scrub_value
from ..episodes import EpisodeFacts, TurnFacts, load_facts, part_totals
from ..terminal.output import jsonable
from .pages.episode.head import EpisodeHead, head_values
from .rendering import environment

STATIC = Path(__file__).parent / "static"
IMAGE_BYTES_MAX = 2**27
"""Bytes of the pictures of one page; later ones are left out."""


@dataclass(frozen=True, slots=True)
class DocumentTurn:
    """A turn."""

    step: Step
    facts: TurnFacts
    shaped: float | None
    """The shaped reward, if the run has one that differs."""
    images: Sequence[str]
    """Hashes of the images of the observation, or of the screenshot that the run kept of it."""


@dataclass(frozen=True, slots=True)
class EpisodeDocument(EpisodeHead):
    """A whole episode, scrubbed."""

    uid: str
    prompt_prefix: str
    extras: Mapping[str, Any]
    """Without the targets of the actions, which a picture would have to draw."""
    note: str
    """Why values of an update are missing; empty if they are not."""
    system: str
    turns: Sequence[DocumentTurn]
    final: str | None
    final_images: Sequence[str]
    model_s: float
    env_s: float
    ended_at: datetime | None


def episode_document(episode: Episode, facts: EpisodeFacts) -> EpisodeDocument:
    """Return the document of a scrubbed episode; the texts of ``facts`` are scrubbed here."""
    facts, one, group = scrub_value(facts), episode.trajectory, episode.group
    rewards = None if facts.rewards is None else facts.rewards.rewards
    kept = [one.final_screenshot] if one.final_screenshot else []
    return EpisodeDocument(
        **head_values(one, group.task, facts.rewards, part_totals(one.steps), facts.training, facts.uses),
        uid=episode.uid,
        prompt_prefix=group.prompt_prefix,
        extras={name: value for name, value in one.extras.items() if name != TARGETS},
        note=facts.tokens.note,
        system=facts.system,
        turns=[_turn(step, facts.turns[step.index], rewards) for step in one.steps],
        final=episode.final_observation,
        final_images=one.final_images or kept,
        model_s=sum(step.model_ms for step in one.steps) / 1000,
        env_s=sum(step.env_ms for step in one.steps) / 1000,
        ended_at=one.steps[-1].created_at if one.steps else None,
    )


def _turn(step: Step, facts: TurnFacts, rewards: Sequence[float] | None) -> DocumentTurn:
    shaped = None if rewards is None or rewards[step.index] == step.reward else rewards[step.index]
    return DocumentTurn(step, facts, shaped, step.images or ([step.screenshot] if step.screenshot else []))


def html_page(document: EpisodeDocument, images: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the parts of the document as one page, with ``images`` by hash within it."""
    style = "".join((STATIC / name).read_text(encoding="utf-8") for name in ("base.css", "document.css"))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    template = environment().get_template("document.html")
    yield from template.generate({"page": document, "pictures": _Pictures(images)})


class _Pictures:
    """The pictures of a page, each embedded where it appears first."""

    def __init__(self, images: Mapping[str, bytes]) -> None:
        self._images, self._size = images, 0
        self._places: dict[str, str] = {}

    def place(self, name: str, here: str) -> str:
        """Return where a picture is embedded: ``here`` if it did not appear before."""
        return self._places.setdefault(name, here)

    def address(self, name: str) -> Markup | None:
        """Return a picture as a ``data:`` address; None beyond ``IMAGE_BYTES_MAX``, and of other content."""
        content = self._images.get(name, b"")
        kind = image_type(content)
        if kind is None or self._size + len(content) > IMAGE_BYTES_MAX:
            return None
        self._size += len(content)
        return Markup(f"data:{kind};base64,{b64encode(content).decode()}")  # noqa: S704 - needs no escaping


class EpisodeFiles:
    """Writes episodes as pages or as JSON: into a folder, each named by its uid, or one into a ``single`` file."""

    def __init__(self, database: Database, path: Path, *, single: bool, as_json: bool = False) -> None:
        if not single:
            path.mkdir()
        self._database, self._path, self._single, self._as_json = database, path, single, as_json
        self._count = 0

    def add(self, episode: Episode) -> None:
        """Write one episode. Raises ExchangeError: a second one for one file."""
        self._count += 1
        if self._single and self._count > 1:
            raise ExchangeError("one `.html` file holds one trajectory: name a folder with `--out`, without `.html`")
        stored = queries.load_trajectory(self._database, episode.trajectory.id)
        document = episode_document(episode, load_facts(self._database, stored))
        path = self._path if self._single else self._path / f"{episode.uid}.html"
        parts = [json.dumps(jsonable(document))] if self._as_json else html_page(document, episode.images)
        with path.open("wb") as file:
            file.writelines(part.encode(errors="replace") for part in parts)

    def close(self) -> None:
        """Do nothing: every file is whole."""
