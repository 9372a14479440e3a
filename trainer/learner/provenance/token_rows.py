"""The tokens of one stored trajectory, turn by turn, with the values that an update computed for them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from ....agents.tokens.token_texts import TokenTexts
from ....records import NO_VERSION, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.queries.lineage import StoredUpdate
from ...algorithms.groups import action_tokens, turn_of_messages
from ...config.errors import ConfigError
from ...config.loading import parse_config
from .sampling_versions import sampling_versions
from .stored_batch import NotRecorded, TrainedStep, TrainedToken, load_members, stored_samples, trained_steps


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One token of a trajectory."""

    id: int
    text: str | None
    """None if the tokenizer is not known."""
    source: str
    """The author of its message."""
    mask: int
    """1 where the policy sampled it."""
    logprob: float | None
    """Log-probability when it was sampled."""
    version: int | None
    """Id of the version that sampled it."""
    advantage: float | None
    """In the update; None where no update trained on the token."""
    importance_weight: float | None
    """Proximal/behavior in the update, before its cap; None likewise."""
    mismatch: float | None = None
    """Log-probability in the update minus that of the engine, in nats; None likewise. At staleness 0 both are of equal
    weights, so that their arithmetic alone differs; at a larger one, the weights differ too."""
    entropy: float | None = None
    """Of the distribution in the update, in nats; None likewise, or if the loss of the run computes none."""
    staleness: int | None = None
    """Updates between the version that sampled the token and the one that was updated; None likewise."""


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The tokens of a turn: its observation with the template around it, and the policy's answer."""

    turn: int | None
    """None for the tokens after the last turn."""
    tokens: Sequence[TokenRow]


@dataclass(frozen=True, slots=True)
class TrajectoryTokens:
    """The tokens of a trajectory."""

    turns: Sequence[TurnTokens]
    run: str | None
    """The run of the update that trained on the trajectory; None if none did."""
    update: int | None
    note: str
    """Why the values of the update are missing; empty if they are not."""


def trajectory_tokens(
    database: Database,
    trajectory: Trajectory,
    texts: TokenTexts | None,
    *,
    with_update: bool = True,
    only: Container[int] | None = None,
) -> TrajectoryTokens:
    """Return the tokens of a trajectory, with the values of the newest surviving update that trained on it.

    Args:
        texts: of the tokenizer of its run (``tokenizer_of_run``); None leaves them out.
        with_update: False leaves out the values of an update.
        only: the turns to return; None returns all, and the tokens after the last one.
    """
    with database.read() as conn:
        uses = [use for use in queries.updates_with(conn, trajectory.id) if not use.abandoned]
        update = queries.load_update(conn, uses[-1].run, uses[-1].update) if uses and with_update else None
    if update is None:
        return TrajectoryTokens(_turns(trajectory, {}, texts, only), None, None, "")
    try:
        trajectory, steps = trained_tokens(database, update, [trajectory.id])[trajectory.id]
    except (NotRecorded, ConfigError) as error:
        return TrajectoryTokens(_turns(trajectory, {}, texts, only), update.run, update.update, str(error))
    trained = {(step.index, token.position): token for step in steps for token in step.tokens if token.weight}
    return TrajectoryTokens(_turns(trajectory, trained, texts, only), update.run, update.update, "")


def trained_tokens(
    database: Database, update: StoredUpdate, only: Collection[str] | None = None
) -> dict[str, tuple[Trajectory, list[TrainedStep]]]:
    """Return each trajectory of a batch, or those in ``only``, with its turns and their tokens in the batch.

    Raises:
        NotRecorded: the update was stored without the values per token.
        ConfigError: this program cannot read the configuration of the run.
        TurnwiseError: stored content was altered, or a demonstration cannot be encoded.
    """
    with database.read() as conn:
        history = sampling_versions(conn, update.run)
        config = parse_config(queries.find_run(conn, update.run).config)
    members = load_members(database, update, config, only)
    samples = stored_samples(update, members, history)
    return {name: (one, trained_steps(one, samples)) for name, one in members.items()}


def _turns(
    trajectory: Trajectory,
    trained: Mapping[tuple[int, int], TrainedToken],
    texts: TokenTexts | None,
    only: Container[int] | None,
) -> list[TurnTokens]:
    turn_of = turn_of_messages(trajectory)
    counts, rows = Counter[int | None](), defaultdict[int | None, list[TokenRow]](list)
    for message in trajectory.messages:
        turn, source = turn_of.get(message.index), message.source.value
        if only is not None and turn not in only:
            continue
        columns = message.tokens, message.mask, message.logprobs, message.versions
        values = zip(action_tokens(message), *(np.asarray(one).tolist() for one in columns), strict=True)
        for acted, token, mask, logprob, version in values:
            found = trained.get((turn, counts[turn])) if acted and turn is not None else None
            counts[turn] += bool(acted)
            rows[turn].append(_row(token, mask, logprob, version, source, found, texts))
    indices: list[int | None] = [step.index for step in trajectory.steps]
    return [TurnTokens(turn, rows[turn]) for turn in [*indices, None] if rows[turn]]


def _row(
    token: int,
    mask: int,
    logprob: float,
    version: int,
    source: str,
    trained: TrainedToken | None,
    texts: TokenTexts | None,
) -> TokenRow:
    learner = None if trained is None else trained.trained_logprob
    return TokenRow(
        id=token,
        text=None if texts is None else texts.text(token),
        source=source,
        mask=mask,
        logprob=None if isnan(logprob) else logprob,
        version=None if version == NO_VERSION else version,
        advantage=None if trained is None else trained.advantage,
        importance_weight=None if trained is None else trained.importance_weight,
        mismatch=None if learner is None or isnan(logprob) else learner - logprob,
        entropy=None if trained is None else trained.entropy,
        staleness=None if trained is None else trained.staleness,
    )
