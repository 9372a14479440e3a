"""The turns that a player wrote of one trajectory: counted as they are written, to end it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .digests import content_digest
from .rows import MESSAGE_IMAGE, PARTIAL_TURN, STEP, Rows

_STEP_KEY, _STEP_DIGEST = STEP.index("idx"), STEP.index("digest")
_PARTIAL_KEY, _PARTIAL_DIGEST = PARTIAL_TURN.index("idx"), PARTIAL_TURN.index("digest")


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts and the content digest of the turns of one trajectory."""

    n_steps: int
    n_partial: int
    """Partial turns: those that ended before their action."""
    n_tokens: int
    """Tokens that a policy sampled."""
    min_version: int | None
    """The lowest version that sampled a token; None without tokens. Likewise the highest."""
    max_version: int | None
    content: str
    """The content digest (``digests.content_digest``)."""


@dataclass(slots=True)
class Written:
    """Counts the rows of one trajectory."""

    steps: dict[int, str] = field(default_factory=dict)
    """The digests of the steps, by ``idx``; likewise of the partial turns."""
    partial: dict[int, str] = field(default_factory=dict)
    message_images: list[dict[str, Any]] = field(default_factory=list)
    n_tokens: int = 0
    versions: set[int] = field(default_factory=set)

    def add(self, rows: Rows) -> None:
        """Add the rows of the next turns."""
        self.steps.update((row[_STEP_KEY], row[_STEP_DIGEST].hex()) for row in rows.steps)
        self.partial.update((row[_PARTIAL_KEY], row[_PARTIAL_DIGEST].hex()) for row in rows.partial_turns)
        for *key, name in rows.message_images:
            self.message_images.append(dict(zip(MESSAGE_IMAGE, (*key, name.hex()), strict=True)))
        self.n_tokens += rows.n_tokens
        self.versions |= rows.versions

    def tally(self, final_images: Sequence[str] = ()) -> Tally:
        """Return the counts and the content digest; ``final_images`` are the hashes of the final observation's."""
        return Tally(
            len(self.steps),
            len(self.partial),
            self.n_tokens,
            min(self.versions, default=None),
            max(self.versions, default=None),
            content_digest(self.steps, self.partial, self.message_images, final_images),
        )
