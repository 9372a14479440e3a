"""What a store has of one episode outside of its record: the rewards, the uses, the credit and the texts of its tokens.

The terminal and the self-contained page of an episode print it.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from ..agents.tokens.token_texts import TokenTexts, system_text, tokenizer_of_run
from ..errors import TurnwiseError
from ..records import Source, Step, Task, Trajectory
from ..store import queries
from ..store.database import Database
from ..store.operations import Rewards
from ..store.queries.lineage import TrajectoryUse
from ..store.schema import OWN
from ..trainer.learner.provenance.token_rows import TrajectoryTokens, TurnTokens, trajectory_tokens

_CONTROL = re.compile(r"<\|?[\w/]+\|?>")
"""Control tokens of the usual chat templates, such as ``<|im_end|>``."""
NO_TOKENIZER = "the text of tokens needs the package `tokenizers`, which is not installed"


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """A turn."""

    advantage: float | None = None
    """Mean over the trained tokens; None if no update trained on one."""
    versions: Sequence[int] = ()
    """Ids of the versions that sampled a token."""
    sampled_text: str = ""
    """The text that the policy sampled; empty if that is the action alone, or no tokenizer is known."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """An episode."""

    task: Task
    training: str
    """Whether it was trained on, or why not."""
    uses: Sequence[TrajectoryUse]
    rewards: Rewards | None
    """In the chosen reward set."""
    system: str
    """The text before the first observation, as the policy read it; empty if there is none or no tokenizer."""
    turns: Mapping[int, TurnFacts]
    tokens: TrajectoryTokens
    """Empty, and with a note, where the package that decodes tokens is not installed."""


def load_facts(
    database: Database, found: Trajectory, reward_set: str | None = None, *, with_update: bool = False
) -> EpisodeFacts:
    """Return the facts of an episode.

    Args:
        reward_set: the name of a set of its run, by default the run's own.
        with_update: whether the tokens have the values that an update computed.

    Raises:
        NotFound: the run has no reward set of this name.
    """
    status = queries.driven_run(database, found.run).status
    with database.read() as conn:
        row, uses = queries.group_row_of(conn, found.id), queries.updates_with(conn, found.id)
        training = queries.training_of(row, uses, status)
        chosen = OWN if reward_set is None else queries.reward_set(conn, found.run, reward_set).no
        rewards = queries.rewards_of(conn, [found.id], chosen).get(found.id)
        task = queries.group_of(conn, found.id).task
    tokens, texts = tokens_of(database, found, with_update=with_update)
    credit = turn_advantages(uses)
    by_turn = {one.turn: one for one in tokens.turns}
    turns = {step.index: turn_facts(step, by_turn.get(step.index), texts, credit) for step in found.steps}
    return EpisodeFacts(task, training, uses, rewards, system_text(texts, found).strip(), turns, tokens)


def tokens_of(
    database: Database, found: Trajectory, *, only: Container[int] | None = None, with_update: bool = True
) -> tuple[TrajectoryTokens, TokenTexts | None]:
    """Return the tokens of an episode, with the reason why some of their values are missing, and their texts.

    Args:
        only: the turns whose tokens to return; None for all.
        with_update: False leaves out the values that an update computed: they need the whole episode.
    """
    try:
        texts = tokenizer_of_run(database, found.run)
    except ModuleNotFoundError:
        return TrajectoryTokens([], None, None, NO_TOKENIZER), None
    try:  # to encode a demonstration as it was trained on needs its environment, and no reader starts one
        with_update &= found.source is not Source.EXPERT
        tokens = trajectory_tokens(database, found, texts, with_update=with_update, only=only)
    except TurnwiseError as error:
        tokens = replace(trajectory_tokens(database, found, texts, with_update=False, only=only), note=str(error))
    return tokens, texts


def turn_advantages(uses: Sequence[TrajectoryUse]) -> Mapping[str, float]:
    """Return the advantage of each turn in the newest surviving update that trained on it, by the turn's index."""
    newest = [use for use in uses if not use.abandoned and use.tokens_trained]
    return newest[-1].turn_advantages if newest else {}


def turn_facts(
    step: Step, tokens: TurnTokens | None, texts: TokenTexts | None, credit: Mapping[str, float]
) -> TurnFacts:
    """Return the facts of a turn; ``credit`` is that of ``turn_advantages``."""
    rows = [] if tokens is None else tokens.tokens
    versions = {row.version for row in rows if row.version is not None}
    sampled = [row.id for row in rows if row.mask and row.source == Source.POLICY.value]
    sampled_text = texts.decode(sampled) if texts is not None and sampled else step.action
    is_longer = any(char.isalnum() for char in _CONTROL.sub("", sampled_text.replace(step.action, "", 1)))
    return TurnFacts(
        advantage=credit.get(str(step.index)),
        versions=sorted(versions),
        sampled_text=sampled_text if is_longer else "",
    )


def part_totals(steps: Sequence[Step]) -> dict[str, float]:
    """Return the sum of each part of the reward over the turns of an episode."""
    totals: dict[str, float] = {}
    for step in steps:
        for name, value in step.reward_parts.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals
