"""What holds in and between the columns of a store: their words, the states of the queue, and the history of versions.

To add a rule, add a ``Rule`` with the condition of a row that violates it.
"""

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, exists, func, or_, select

from ....records import SPLITS, EndedBy, GroupState, Limit, Purpose, Source, Status
from ...content.blob_root import NAMES
from ...content.blobs import IN_DATABASE, IN_FOLDER, MESSAGES, PNG, TEXT, ZLIB
from ...schema import (
    OWN,
    batch_group,
    batch_item,
    blob,
    lease,
    metric,
    partial_turn,
    policy_version,
    reward,
    reward_set,
    rollout_group,
    run,
    step,
    store_setting,
    task,
    train_batch,
    trajectory,
)
from .. import Progress
from ..garbage import REFERENCES
from .finding import Finding, findings, key_columns


class Rule(NamedTuple):
    """A condition that every row of a table fulfils."""

    field: Column[Any]
    """The column that a finding names."""
    text: str
    """The rule, as a sentence without its full stop."""
    violated: ColumnElement[bool]


def check_rules(conn: Connection, progress: Progress) -> Iterator[Finding]:
    """Yield a finding per row and rule that it violates."""
    for done, rule in enumerate(RULES):
        progress("rules", done, len(RULES))
        table = rule.field.table
        statement = select(*key_columns(table), rule.field.label("stored")).where(rule.violated)
        yield from findings(conn, table, statement, rule.field.name, "is {stored!s:.80}, but " + rule.text)


def _either(first: ColumnElement[bool], second: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that exactly one of two conditions holds."""
    return or_(and_(first, ~second), and_(~first, second))


def _any(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists(select(1).where(*conditions))


def _in(*states: GroupState) -> ColumnElement[bool]:
    return _group.state.in_([state.value for state in states])


_group, _head, _made = rollout_group.c, trajectory.c, policy_version.c
_OWN = and_(reward.c.trajectory_no == _head.no, reward.c.set_no == OWN)
_OF_GROUP = _head.group_no == _group.no
_IS_OPEN = _group.state == GroupState.OPEN.value
_IS_RUNNING = _head.status == Status.RUNNING.value
_OF_HEAD = step.c.trajectory_no == _head.no
_HAS_OBSERVATION = or_(step.c.observation.is_not(None), step.c.observation_blob.is_not(None))
_HAS_MESSAGES, _IS_SAID = (
    or_(table.c.messages.is_not(None), table.c.messages_blob.is_not(None)) for table in (step, partial_turn)
)
_version = policy_version.alias("version").c
_parent = policy_version.alias("parent").c
_IS_PARENT = and_(_parent.run_no == _made.run_no, _parent.id == _made.parent_id)


def _version_of(table: Table) -> ColumnElement[bool]:
    return and_(_version.run_no == table.c.run_no, _version.id == table.c.version_id)


_QUEUE = [
    Rule(
        _group.state,
        "a group is consumed if and only if a surviving batch consumed it",
        _either(
            _in(GroupState.CONSUMED),
            _any(batch_group.c.group_no == _group.no, batch_group.c.fresh, ~batch_group.c.abandoned),
        ),
    ),
    Rule(
        _group.state,
        "a group is leased if and only if a lease of it has not ended",
        _either(_in(GroupState.LEASED), _any(lease.c.group_no == _group.no, lease.c.ended_at.is_(None))),
    ),
    Rule(
        _group.closed_at,
        "a group has a closing time if and only if it is closed",
        _either(_IS_OPEN, _group.closed_at.is_(None)),
    ),
    Rule(
        _group.n_trajectories,
        "a group has a number of trajectories if and only if it is closed",
        _either(_IS_OPEN, _group.n_trajectories.is_(None)),
    ),
    Rule(_group.closed_at, "a group closes after it opens", _group.closed_at < _group.created_at),
    Rule(_group.state, "a closed group has no running trajectory", and_(~_IS_OPEN, _any(_OF_GROUP, _IS_RUNNING))),
    Rule(
        _group.reason,
        "only a filtered, failed or expired group has a reason",
        and_(~_in(GroupState.FILTERED, GroupState.FAILED, GroupState.EXPIRED), _group.reason != ""),
    ),
    Rule(
        _group.abandoned,
        "a group is abandoned if and only if one of its trajectories is",
        _either(_group.abandoned, _any(_OF_GROUP, _head.abandoned)),
    ),
    Rule(
        _group.score_no,
        "a group whose trajectories have own rewards has a number of its scoring",
        and_(_group.score_no.is_(None), _any(_OF_GROUP, _OWN)),
    ),
    Rule(
        _group.n_rewards,
        "a group has own rewards of as many members as its scoring stored",
        func.coalesce(_group.n_rewards, 0)
        != select(func.count())
        .select_from(reward.join(trajectory, _OWN))
        .where(_OF_GROUP)
        .correlate(rollout_group)
        .scalar_subquery(),
    ),
    Rule(
        lease.c.outcome,
        "a lease has an outcome if and only if it has ended",
        _either(lease.c.ended_at.is_(None), lease.c.outcome == ""),
    ),
    Rule(
        lease.c.run_no,
        "a lease is of a group of its run",
        _any(_group.no == lease.c.group_no, _group.run_no != lease.c.run_no),
    ),
    Rule(
        lease.c.taken_at,
        "a lease expires and ends after it was taken",
        or_(lease.c.expires_at < lease.c.taken_at, lease.c.ended_at < lease.c.taken_at),
    ),
]
_HEADS = [
    Rule(task.c.id, "a task is that of a group", ~_any(_group.task_no == task.c.no)),
    Rule(
        run.c.ended_at,
        "a run has an end if and only if it is not running",
        _either(run.c.status == "running", run.c.ended_at.is_(None)),
    ),
    Rule(run.c.ended_at, "a run ends after it begins", run.c.ended_at < run.c.created_at),
    Rule(
        run.c.epoch,
        "a run's epoch is at least that of its updates",
        _any(train_batch.c.run_no == run.c.no, train_batch.c.epoch > run.c.epoch),
    ),
    Rule(
        _head.ended_at,
        "a trajectory has an end if and only if it is not running",
        _either(_IS_RUNNING, _head.ended_at.is_(None)),
    ),
    Rule(
        _head.ended_by,
        "a trajectory was ended by a part if and only if it has ended",
        _either(_head.ended_at.is_(None), _head.ended_by == ""),
    ),
    Rule(_head.run_no, "a trajectory is of the run of its group", _any(_OF_GROUP, _group.run_no != _head.run_no)),
    Rule(_head.purpose, "a trajectory has the purpose of its group", _any(_OF_GROUP, _group.purpose != _head.purpose)),
    Rule(
        _head.env_id,
        "a trajectory has the environment of its group's task",
        _any(_OF_GROUP, _group.task_no == task.c.no, task.c.env_id != _head.env_id),
    ),
    Rule(
        _head.pruned_at,
        "a pruned trajectory has no tokens and no observations",
        and_(
            _head.pruned_at.is_not(None),
            or_(
                _head.final_observation.is_not(None),
                _any(_OF_HEAD, or_(_HAS_OBSERVATION, _HAS_MESSAGES)),
                _any(partial_turn.c.trajectory_no == _head.no, _IS_SAID),
            ),
        ),
    ),
    Rule(
        _head.pruned_at,
        "a trajectory without its turns, tokens or observations is pruned",
        and_(
            _head.pruned_at.is_(None),
            or_(
                _any(_OF_HEAD, ~_HAS_OBSERVATION),
                _any(partial_turn.c.trajectory_no == _head.no, ~_IS_SAID),
                and_(_head.n_steps > 0, ~_any(_OF_HEAD)),
            ),
        ),
    ),
    Rule(
        _head.branched_at,
        "a trajectory has a turn of branching if and only if it has a parent",
        _either(_head.branched_from.is_(None), _head.branched_at.is_(None)),
    ),
]
_HISTORY = [
    Rule(
        _made.parent_id,
        "a version above update 0 has a parent, whose update is the one before",
        and_(_made.update_no > 0, ~_any(_IS_PARENT, _parent.update_no == _made.update_no - 1)),
    ),
    Rule(_made.parent_id, "a version's parent has a lower id", _made.parent_id >= _made.id),
    Rule(
        _made.abandoned,
        "a surviving version has a surviving parent",
        and_(~_made.abandoned, _any(_IS_PARENT, _parent.abandoned)),
    ),
    Rule(
        train_batch.c.update_no,
        "a batch has the update number of the version that it made",
        _any(_version_of(train_batch), _version.update_no != train_batch.c.update_no),
    ),
    Rule(
        train_batch.c.created_at,
        "a batch has the time of the version that it made",
        _any(_version_of(train_batch), _version.created_at != train_batch.c.created_at),
    ),
    *(
        Rule(
            table.c.abandoned,
            "an update is abandoned if and only if the version that it made is",
            _any(_version_of(table), _version.abandoned != table.c.abandoned),
        )
        for table in (train_batch, batch_group, batch_item)
    ),
    Rule(
        _head.abandoned,
        "a trajectory is abandoned if and only if its newest version is",
        _either(
            _head.abandoned, _any(_version.run_no == _head.run_no, _version.id == _head.max_version, _version.abandoned)
        ),
    ),
    Rule(
        metric.c.abandoned,
        "a metric is abandoned only if a version of its update is",
        and_(
            metric.c.abandoned,
            ~_any(_version.run_no == metric.c.run_no, _version.update_no == metric.c.update_no, _version.abandoned),
        ),
    ),
]
_MEDIA = {"blob_hash": PNG, "messages_blob": MESSAGES}
"""The media types of the content that a column names; others name text."""
_CONTENT = [
    Rule(
        blob.c.media_type,
        f"`{column.table.name}.{column.name}` names it, whose content is {_MEDIA.get(column.name, TEXT)}",
        and_(blob.c.media_type != _MEDIA.get(column.name, TEXT), _any(column == blob.c.hash)),
    )
    for column in REFERENCES
]
_SETS = [
    Rule(
        reward.c.set_no,
        "a reward is of a trajectory of the run of its reward set",
        _any(
            reward_set.c.no == reward.c.set_no, _head.no == reward.c.trajectory_no, _head.run_no != reward_set.c.run_no
        ),
    )
]


def _words(vocabulary: type[StrEnum]) -> list[str]:
    return [word.value for word in vocabulary]


VOCABULARIES: dict[Column[Any], Collection[str]] = {
    run.c.kind: ("train", "eval", "import", "score", "replay"),
    run.c.status: ("running", "finished", "failed", "stopped"),
    _group.purpose: _words(Purpose),
    _group.state: _words(GroupState),
    _head.status: _words(Status),
    _head.purpose: _words(Purpose),
    _head.ended_by: ["", *_words(EndedBy)],
    _head.reached: ["", *_words(Limit)],
    _head.source: _words(Source),
    step.c.cut_by: ["", *_words(Limit)],
    task.c.split: SPLITS,
    lease.c.outcome: ("", "consumed", "released", "expired", "overdue", "resumed"),
    blob.c.location: (IN_DATABASE, IN_FOLDER),
    blob.c.encoding: ("", ZLIB),
    blob.c.media_type: (TEXT, PNG, MESSAGES),
    store_setting.c.name: NAMES,
}
"""The words of columns that have no CHECK constraint."""
_WORDS = [
    Rule(column, f"it must be one of {', '.join(word or '(empty)' for word in words)}", column.not_in(words))
    for column, words in VOCABULARIES.items()
]
RULES: list[Rule] = [*_WORDS, *_QUEUE, *_HEADS, *_HISTORY, *_SETS, *_CONTENT]
