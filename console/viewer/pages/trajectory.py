"""An episode: its timeline, pictures, tree, and its turns with observation, action and reward, or its exact tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....agents.reexecution.reexecute import SANDBOX
from ....agents.rollout.progress import IMAGE_SIZES, TARGETS
from ....agents.tokens.token_texts import TokenTexts, system_text
from ....records import Step
from ....store import queries
from ....store.database import Database
from ....store.operations import Rewards
from ....store.queries.fates import MemberFate
from ....store.queries.lineage import Branch
from ....trainer.learner.provenance.token_rows import TrajectoryTokens
from ...episodes import part_totals, tokens_of, turn_advantages, turn_facts
from ..given import Given
from .episode.branches import Tree, load_tree
from .episode.head import EpisodeHead, head_values
from .episode.part import WHOLE_TURNS, Part, left_out_note, load_part, turn_total
from .episode.pictures import (
    Picture,
    Thumbnail,
    pictures,
    processed_sizes,
    seen_at_end,
    seen_in,
    sizes_of,
    targets_of,
    thumbnails,
    window_of,
)
from .episode.quotation import FIELDS
from .episode.timeline import Timeline, timeline, versions_by_turn
from .episode.token_strip import SHADES, STRIP_TURNS, TOKENS_SHOWN, TokenStrip, token_strip
from .episode.turns import TurnView, turn_view, with_quotation
from .text import Cut

TURNS_SHOWN = 20
TIMELINE_TURNS = 500
"""Turns that the timeline of a long episode has: those around the shown ones."""
FIELD_CHARS, TURN_CHARS = 4_000, 1_000_000
VIEWS = ("text", "tokens")


@dataclass(frozen=True, slots=True)
class TrajectoryPage(EpisodeHead):
    """An episode with some of its turns."""

    branches: Sequence[Branch]
    """The episodes that are branches of this one, of every run."""
    tree: Tree | None
    """The tree of the group, if its episodes branch from one another."""
    sandbox: Mapping[str, Any] | None
    """Image, digest, backend and limits, as the environment reported them; None if it reported none."""
    extras: Mapping[str, Any]
    """The other extras of the episode."""
    siblings: Sequence[MemberFate]
    system: Cut
    """The text before the first observation."""
    turns: Sequence[TurnView]
    """With the view of texts only."""
    total: int
    """Turns of the episode."""
    is_part: bool
    """Whether the episode is too long to be loaded as a whole (``Part``)."""
    start: int
    beyond: int | None
    """The turn that the URL names, if the episode ended before it: the last ones are shown instead."""
    previous_start: int | None
    next_start: int | None
    final: Cut | None
    """The final observation, on the last page."""
    final_pictures: Sequence[Picture]
    thumbnails: Sequence[Thumbnail]
    timeline: Timeline
    made_by: Mapping[int, int]
    """By id of a version that sampled in the episode, the number of the update that made it."""
    timeline_start: int
    """The first turn of the timeline."""
    timeline_turns: int
    """At most ``TIMELINE_TURNS``."""
    views: Sequence[str]
    view: str
    shade: str
    strip: TokenStrip | None
    """With the view of tokens only."""
    token: int | None
    """Position of the token that the URL names."""
    token_note: str
    quote: str
    """The quotation that the URL names."""
    is_quoted: bool
    """Whether a shown text has the quotation."""


def load_trajectory_page(database: Database, given: Given) -> TrajectoryPage:
    """Return an episode with its turns from ``start`` on; with ``turn``, that turn alone, with up to ``TURN_CHARS``.

    The view of tokens has all turns, up to ``TOKENS_SHOWN`` tokens; ``all=1`` removes the limit. Of an episode that is
    not loaded as a whole (``Part``), it has ``STRIP_TURNS`` turns from ``start`` on.
    """
    name, full = given.path["trajectory"], given.text("turn") is not None
    view = given.choice("view", VIEWS) or VIEWS[0]
    total, limit = turn_total(database, name), TURN_CHARS if full else FIELD_CHARS
    asked = given.number("turn") if full else given.number("start")
    count = 1 if full else TURNS_SHOWN if view == "text" or total <= WHOLE_TURNS else STRIP_TURNS
    start = asked if asked <= total else max(total - 1, 0) // count * count
    end = start + count
    part = load_part(database, name, total, start, end + 1)
    found, total = part.found, part.total
    status = queries.driven_run(database, found.run).status
    with database.read() as conn:
        row = queries.group_row_of(conn, name)
        uses = queries.updates_with(conn, name)
        fate = queries.group_fates(conn, [row], status)[0]
        rewards = queries.rewards_of(conn, [name]).get(name)
        branches = queries.branches_of(conn, name)
        parts = part_totals(found.steps) if part.is_whole else queries.part_sums(conn, name)
    only = range(start, end) if view == "text" or (not part.is_whole and end < total) else None
    tokens, texts = tokens_of(database, found, only=only, with_update=view == "tokens" and part.is_whole)
    first = min(start, max(total - 1, 0)) // TIMELINE_TURNS * TIMELINE_TURNS
    around = part
    if not part.is_whole:
        around = load_part(database, name, total, first, first + TIMELINE_TURNS, texts=False)
    timed, versions = around.steps(first, first + TIMELINE_TURNS), versions_by_turn(around.found)
    shown = versions if around is part else versions | versions_by_turn(found)
    with database.read() as conn:
        made_by = queries.made_by(conn, found.run, {one for of_turn in shown.values() for one in of_turn})
    turns, credit = list[TurnView](), turn_advantages(uses)
    if view == "text":
        turns = _turns(database, part, part.steps(start, end), tokens, texts, credit, rewards, limit)
    turns, is_quoted = _quoted(turns, given)
    is_last = end >= total and view == "text"
    last = queries.final_observation(database, name) if is_last else None
    strip = None
    if view == "tokens":
        strip = token_strip(tokens, start if full else None, None if given.choice("all", ("1",)) else TOKENS_SHOWN)
    final = seen_at_end(found) if is_last else ()
    return TrajectoryPage(
        **head_values(found, fate.task, rewards, parts, queries.training_of(row, uses, status), uses),
        branches=branches,
        tree=load_tree(database, fate),
        sandbox=sandbox if isinstance(sandbox := found.extras.get(SANDBOX), dict) else None,
        extras={key: value for key, value in found.extras.items() if key not in (SANDBOX, TARGETS, IMAGE_SIZES)},
        siblings=fate.members,
        system=Cut.of(system_text(texts, found).strip(), limit) if not start else Cut("", 0),
        turns=turns,
        total=total,
        is_part=not part.is_whole,
        start=start,
        beyond=asked if asked > total else None,
        previous_start=max(start - count, 0) if start and not full else None,
        next_start=end if end < total and not full and (view == "text" or not part.is_whole) else None,
        final=None if last is None else Cut.of(last, limit),
        final_pictures=pictures(final, sizes_of(database, final), (), is_kept=not found.final_images),
        thumbnails=thumbnails(around.found, total),
        timeline=timeline(timed, {turn: of for turn, of in versions.items() if first <= turn < first + len(timed)}),
        made_by=made_by,
        timeline_start=first,
        timeline_turns=len(timed),
        views=VIEWS,
        view=view,
        shade=_shade(given, strip),
        strip=strip,
        token=given.number("token") if given.text("token") else None,
        token_note=tokens.note or (left_out_note(part) if uses and view == "tokens" else ""),
        quote=given.text("quote") or "",
        is_quoted=is_quoted,
    )


def _turns(
    database: Database,
    part: Part,
    steps: Sequence[Step],
    tokens: TrajectoryTokens,
    texts: TokenTexts | None,
    credit: Mapping[str, float],
    rewards: Rewards | None,
    limit: int | None,
) -> list[TurnView]:
    found = part.found
    seen = {step.index: seen_in(step) for step in found.steps} | {part.total: seen_at_end(found)}
    after = {step.index: seen[step.index + 1][:1] for step in steps}
    sizes = sizes_of(database, (name for step in steps for name in (*seen[step.index], *after[step.index])))
    by_turn, processed = {one.turn: one for one in tokens.turns}, processed_sizes(found.extras)
    loaded, messages = {one.index: one for one in found.steps}, {one.index: one for one in found.messages}
    return [
        turn_view(
            step,
            turn_facts(step, by_turn.get(step.index), texts, credit),
            pictures(seen[step.index], sizes, targets_of(found.extras, step.index), processed, is_kept=not step.images),
            next(iter(pictures(after[step.index], sizes, ())), None),
            window_of(step, loaded, messages),
            rewards,
            limit,
        )
        for step in steps
    ]


def _quoted(turns: Sequence[TurnView], given: Given) -> tuple[list[TurnView], bool]:
    """Return the turns with the quotation of the URL marked in the first one that has it, and whether one has."""
    quote, field, occurrence = given.text("quote"), given.choice("field", FIELDS), given.number("occurrence")
    marked = list(turns)
    for place, turn in enumerate(turns if quote else ()):
        found = with_quotation(turn, quote or "", field, occurrence)
        if found is not None:
            marked[place] = found
            return marked, True
    return marked, False


def _shade(given: Given, strip: TokenStrip | None) -> str:
    """Return the value that shades the tokens: that of the URL if a token has it, or the first one that they have."""
    chosen = given.choice("shade", SHADES)
    known = list(SHADES) if strip is None else strip.shades
    return chosen if chosen is not None and chosen in known else next(iter(known), next(iter(SHADES)))
