"""An episode: its timeline, and its turns with observation, action, reward, advantage and tokens."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from ....agents.tokens.token_texts import TokenTexts, system_text, tokenizer_of_run
from ....errors import TurnwiseError
from ....records import Source, Step, Task, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.operations import Rewards
from ....store.queries.fates import MemberFate
from ....store.queries.lineage import TrajectoryUse
from ....trainer.algorithms.groups import turn_of_messages
from ....trainer.run.retraining.token_rows import TokenRow, TrajectoryTokens, trajectory_tokens
from ..given import Given
from .text import Cut

TURNS_SHOWN = 20
FIELD_CHARS = 4_000
TOKENS_SHOWN = 4_000
"""Tokens per turn that the strip shows."""
VIEWS = ("text", "tokens")
SHADES = ("logprob", "advantage", "weight", "version", "mask")
_CONTROL = re.compile(r"<\|?[\w/]+\|?>")
"""Control tokens of the usual chat templates, such as ``<|im_end|>``."""
NO_TOKENIZER = "the text of tokens needs the package `tokenizers`, which is not installed"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a turn on the timeline, in seconds from the beginning of the episode."""

    turn: int
    lane: str
    """``sampling``, ``environment`` or ``waiting``."""
    start_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn."""

    index: int
    observation: Cut
    images: Sequence[str]
    screenshot: str
    """An image that the run kept of the observation and that no policy read; empty for none."""
    action: Cut
    sampled_text: Cut | None
    """The policy's text of this turn; None if that is the action alone, or no tokenizer is known."""
    reward: float
    reward_parts: Mapping[str, float]
    shaped: float | None
    """The shaped reward, if the run has one that differs."""
    advantage: float | None
    """Mean over the trained tokens; None if no update trained on one."""
    versions: Sequence[int]
    action_valid: bool
    failed: bool
    cut_by: str
    state_key: str
    agent: str
    model_ms: float
    env_ms: float
    tokens: Sequence[TokenRow]
    """With the view of tokens only."""
    tokens_left_out: int


@dataclass(frozen=True, slots=True)
class TokenCurve:
    """A value over the sampled tokens of the shown turns."""

    shade: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class TrajectoryPage:
    """An episode with some of its turns."""

    trajectory: str
    run: str
    group: str
    member: int
    attempt: int
    task: Task
    status: str
    success: bool | None
    reward: float
    shaped: float | None
    """The shaped return, if the run has one."""
    verdicts: Sequence[Mapping[str, Any]]
    part_totals: Mapping[str, float]
    policy: str
    source: str
    error: str
    stop_reason: str
    branched_from: str | None
    branched_at: int | None
    deterministic: bool
    extras: Mapping[str, Any]
    training: str
    """Whether it was trained on, or why not."""
    uses: Sequence[TrajectoryUse]
    siblings: Sequence[MemberFate]
    system: Cut
    """The text before the first observation."""
    turns: Sequence[TurnView]
    total: int
    """Turns of the episode."""
    start: int
    previous_start: int | None
    next_start: int | None
    final: Cut | None
    """The final observation, on the last page."""
    final_images: Sequence[str]
    final_screenshot: str
    timeline: Sequence[Segment]
    boundaries: Sequence[int]
    """The turns whose tokens another version sampled than those of the turn before."""
    views: Sequence[str]
    view: str
    shades: Sequence[str]
    shade: str
    curves: Sequence[TokenCurve]
    """With the view of tokens only."""
    token_note: str


def load_trajectory_page(database: Database, given: Given) -> TrajectoryPage:
    """Return an episode with its turns from ``start`` on; with ``turn``, that turn alone and without a limit."""
    name, full = given.path["trajectory"], given.text("turn") is not None
    view = "tokens" if given.choice("view", VIEWS) == "tokens" else "text"
    found = queries.load_trajectory(database, name)
    with database.read() as conn:
        row = queries.group_row_of(conn, name)
        uses, status = queries.updates_with(conn, name), queries.find_run(conn, found.run).status
        fate = queries.group_fates(conn, [row], status)[0]
        rewards = queries.rewards_of(conn, [name]).get(name)
    tokens, texts, note = _tokens(database, found)
    start = given.number("turn") if full else given.number("start")
    end = start + (1 if full else TURNS_SHOWN)
    total, limit = len(found.steps), None if full else FIELD_CHARS
    versions = _versions(found)
    shown = [
        _turn(step, tokens, texts, rewards, versions.get(step.index, []), limit, shows_tokens=view == "tokens")
        for step in found.steps[start:end]
    ]
    is_last = end >= total
    last = queries.final_observation(database, name) if is_last else None
    return TrajectoryPage(
        trajectory=found.id,
        run=found.run,
        group=found.group,
        member=found.member,
        attempt=found.attempt,
        task=fate.task,
        status=found.status.value,
        success=found.success,
        reward=found.reward,
        shaped=None if rewards is None or rewards.rewards is None else float(sum(rewards.rewards)),
        verdicts=[] if rewards is None else list(rewards.verdicts),
        part_totals=_part_totals(found.steps),
        policy=found.policy,
        source=found.source.value,
        error=found.error,
        stop_reason=found.stop_reason,
        branched_from=found.branched_from,
        branched_at=found.branched_at,
        deterministic=found.deterministic,
        extras=found.extras,
        training=queries.training_of(row, uses, status),
        uses=uses,
        siblings=fate.members,
        system=Cut.of(system_text(texts, found).strip(), limit) if not start else Cut("", 0),
        turns=shown,
        total=total,
        start=start,
        previous_start=max(start - TURNS_SHOWN, 0) if start and not full else None,
        next_start=end if end < total and not full else None,
        final=None if last is None else Cut.of(last, limit),
        final_images=found.final_images if is_last else [],
        final_screenshot=found.final_screenshot if is_last else "",
        timeline=_timeline(found.steps),
        boundaries=[turn for before, turn in pairwise(sorted(versions)) if versions[before] != versions[turn]],
        views=VIEWS,
        view=view,
        shades=SHADES,
        shade=given.choice("shade", SHADES) or SHADES[0],
        curves=_curves(shown),
        token_note=note,
    )


def _tokens(database: Database, found: Trajectory) -> tuple[TrajectoryTokens, TokenTexts | None, str]:
    """Return the tokens of an episode, their texts, and why some of their values are missing."""
    try:
        texts = tokenizer_of_run(database, found.run)
    except ModuleNotFoundError:
        return TrajectoryTokens([], None, None, ""), None, NO_TOKENIZER
    try:  # to encode a demonstration as it was trained on needs its environment, and a page starts none
        tokens = trajectory_tokens(database, found, texts, with_update=found.source is not Source.EXPERT)
    except TurnwiseError as error:
        tokens = replace(trajectory_tokens(database, found, texts, with_update=False), note=str(error))
    return tokens, texts, tokens.note


def _turn(
    step: Step,
    tokens: TrajectoryTokens,
    texts: TokenTexts | None,
    rewards: Rewards | None,
    versions: Sequence[int],
    limit: int | None,
    *,
    shows_tokens: bool,
) -> TurnView:
    rows = next((one.tokens for one in tokens.turns if one.turn == step.index), [])
    values = [row.advantage for row in rows if row.advantage is not None]
    shaped = None if rewards is None or rewards.rewards is None else rewards.rewards[step.index]
    sampled = [row.id for row in rows if row.mask and row.source == Source.POLICY.value]
    sampled_text = texts.decode(sampled) if texts is not None and sampled else step.action
    is_longer = any(char.isalnum() for char in _CONTROL.sub("", sampled_text.replace(step.action, "", 1)))
    kept = rows[: None if limit is None else TOKENS_SHOWN] if shows_tokens else []
    return TurnView(
        index=step.index,
        observation=Cut.of(step.observation, limit),
        images=step.images,
        screenshot=step.screenshot,
        action=Cut.of(step.action, limit),
        sampled_text=Cut.of(sampled_text, limit) if is_longer else None,
        reward=step.reward,
        reward_parts=step.reward_parts,
        shaped=None if shaped == step.reward else shaped,
        advantage=fmean(values) if values else None,
        versions=versions,
        action_valid=step.action_valid,
        failed=step.failed,
        cut_by=step.cut_by.value if step.cut_by else "",
        state_key=step.state_key,
        agent=step.agent,
        model_ms=step.model_ms,
        env_ms=step.env_ms,
        tokens=kept,
        tokens_left_out=len(rows) - len(kept) if shows_tokens else 0,
    )


def _curves(turns: Sequence[TurnView]) -> list[TokenCurve]:
    """Return the curves that have a value."""
    rows = [row for turn in turns for row in turn.tokens if row.mask]
    columns = {
        "logprob": [row.logprob for row in rows],
        "advantage": [row.advantage for row in rows],
        "weight": [row.importance_weight for row in rows],
    }
    return [TokenCurve(name, values) for name, values in columns.items() if any(one is not None for one in values)]


def _part_totals(steps: Sequence[Step]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for step in steps:
        for name, value in step.reward_parts.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _versions(found: Trajectory) -> dict[int, list[int]]:
    """Return the versions that sampled a token of each turn, by index; turns without one are left out."""
    turns = turn_of_messages(found)
    by_turn: dict[int, set[int]] = {}
    for message in found.messages:
        turn = turns.get(message.index)
        sampled = {int(version) for version in message.versions if version >= 0}
        if turn is not None and sampled:
            by_turn.setdefault(turn, set()).update(sampled)
    return {turn: sorted(versions) for turn, versions in by_turn.items()}


def _timeline(steps: Sequence[Step]) -> list[Segment]:
    """Return how the time of an episode was spent: a turn ends with the answer of its environment."""
    segments: list[Segment] = []
    clock, before = 0.0, None
    for step in steps:
        model_s, env_s = max(step.model_ms, 0.0) / 1000, max(step.env_ms, 0.0) / 1000
        passed = 0.0 if before is None or step.created_at is None else (step.created_at - before).total_seconds()
        waited = max(passed - model_s - env_s, 0.0)
        for lane, length in (("waiting", waited), ("sampling", model_s), ("environment", env_s)):
            if length:
                segments.append(Segment(step.index, lane, clock, length))
            clock += length
        before = step.created_at
    return segments
