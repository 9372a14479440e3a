"""The exact tokens of an episode in one strip, with the curve of each value over their position."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from .....store import queries
from .....store.database import Database
from .....trainer.learner.provenance.token_rows import TokenRow, TrajectoryTokens
from ....episodes import tokens_of
from ...given import Given
from .part import Part, left_out_note, load_part, turn_total

TOKENS_SHOWN = 30_000
"""Tokens of an episode on one page."""
STRIP_TURNS = 500
"""Turns of an episode that is not loaded as a whole (``Part``) on one page."""
SHADES = {name: name for name in ("logprob", "entropy", "advantage", "mismatch")}
SHADES |= {"weight": "importance_weight"} | {name: name for name in ("staleness", "version", "mask")}
"""By name in the URL, the field of a token."""
_UPDATE_VALUES = ("entropy", "advantage", "mismatch", "weight", "staleness")


@dataclass(frozen=True, slots=True)
class TurnStrip:
    """The tokens of a turn."""

    turn: int | None
    """None for the tokens after the last turn."""
    first: int
    """Position of its first token in the episode, or in the loaded part of a long one."""
    rows: Sequence[TokenRow]
    left_out: int


@dataclass(frozen=True, slots=True)
class TokenCurve:
    """A value over the shown tokens; None for a token without one."""

    shade: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class TokenStrip:
    """The tokens of an episode, or as many as a page shows."""

    total: int
    """Of the loaded part, if the episode is long."""
    shown: int
    sampled: int
    """Tokens that the policy sampled."""
    update: int | None
    """The update whose values are shown."""
    run: str | None
    """The run of that update."""
    turns: Sequence[TurnStrip]
    shades: Sequence[str]
    """The values that a token has."""
    missing: str
    """Why other values are missing; empty if none is."""
    curves: Sequence[TokenCurve]
    first_version: int


@dataclass(frozen=True, slots=True)
class TokenColumns:
    """The values of the tokens of an episode, or of ``STRIP_TURNS`` turns of a long one, one list per value."""

    trajectory: str
    run: str | None
    update: int | None
    note: str
    next_start: int | None
    """The ``start`` of the turns that follow; None if no turn does. With ``all=1``, every turn is here."""
    turn: Sequence[int | None]
    id: Sequence[int]
    text: Sequence[str | None]
    source: Sequence[str]
    mask: Sequence[int]
    logprob: Sequence[float | None]
    entropy: Sequence[float | None]
    advantage: Sequence[float | None]
    mismatch: Sequence[float | None]
    importance_weight: Sequence[float | None]
    staleness: Sequence[int | None]
    version: Sequence[int | None]


def load_token_columns(database: Database, given: Given) -> TokenColumns:
    """Return the values of all tokens of an episode; of a long one, those of the turns from ``start`` on."""
    name, start = given.path["trajectory"], given.number("start")
    if given.choice("all", ("1",)):
        part = Part(found := queries.load_trajectory(database, name), len(found.steps))
    else:
        part = load_part(database, name, turn_total(database, name), start, start + STRIP_TURNS)
    tokens, _ = tokens_of(database, part.found, with_update=part.is_whole)
    following = start + STRIP_TURNS if not part.is_whole and start + STRIP_TURNS < part.total else None
    rows = [row for turn in tokens.turns for row in turn.tokens]
    names = [one.name for one in fields(TokenRow)]
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    turns = [one.turn for one in tokens.turns for _ in one.tokens]
    note = tokens.note or left_out_note(part)
    return TokenColumns(part.found.id, tokens.run, tokens.update, note, following, turns, **columns)


def token_strip(tokens: TrajectoryTokens, only: int | None, limit: int | None) -> TokenStrip:
    """Return the strip of an episode.

    Args:
        only: the turn to show; None shows all.
        limit: the number of tokens to show; None shows all.
    """
    turns: list[TurnStrip] = []
    place, left = 0, limit
    for one in tokens.turns:
        if only in (None, one.turn):
            rows = one.tokens if left is None else one.tokens[: max(left, 0)]
            turns.append(TurnStrip(one.turn, place, rows, len(one.tokens) - len(rows)))
            left = None if left is None else left - len(rows)
        place += len(one.tokens)
    shown = [row for turn in turns for row in turn.rows]
    every = [(name, [getattr(row, field) if row.mask else None for row in shown]) for name, field in SHADES.items()]
    curves = [TokenCurve(name, values) for name, values in every if any(one is not None for one in values)]
    shades = [one.shade for one in curves]
    versions = [row.version for row in shown if row.version is not None]
    return TokenStrip(
        total=place,
        shown=len(shown),
        sampled=sum(row.mask for row in shown),
        update=tokens.update,
        run=tokens.run,
        turns=turns,
        shades=shades,
        missing=_missing(tokens, shades),
        curves=curves,
        first_version=min(versions, default=0),
    )


def _missing(tokens: TrajectoryTokens, shades: Sequence[str]) -> str:
    """Return why no token has some of the values that an update computes; empty if tokens have all."""
    missing = [name for name in _UPDATE_VALUES if name not in shades]
    if not missing or not shades or tokens.note:
        return ""
    if tokens.update is None:
        return f"no {', '.join(missing)}: no update trained on this episode"
    return f"no {', '.join(missing)} in update {tokens.update}"
