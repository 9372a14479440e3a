"""The rows of turns: which messages belong to a step, and the tally that a player and the store compute of them."""

from dataclasses import replace
from math import nan

import pytest
from turnwise.records import NO_VERSION, Status
from turnwise.store.content.rows import INLINE_MESSAGES_BYTES, PARTIAL_TURN, STEP, Rows, Written, rows_of
from turnwise.store.content.turn_rows import messages_of, turn_rows
from turnwise.store.database import Database
from turnwise.store.errors import StepCorrupt
from turnwise.store.queries import load_trajectory
from turnwise.tests.store.conftest import sqlite_first
from turnwise.tests.store.making import call, create_run, group, records, trajectory


def two_turns() -> Rows:
    (first, second), messages = zip(*(records(index) for index in range(2)), strict=True)
    return rows_of([*first, *second], [*messages[0], *messages[1], *records(2)[1]])


def test_a_step_has_the_messages_since_the_step_before() -> None:
    rows = two_turns()
    assert [row[STEP.index("idx")] for row in rows.steps] == [0, 1]
    assert [row[PARTIAL_TURN.index("idx")] for row in rows.partial_turns] == [4]
    assert (rows.n_tokens, rows.versions) == (6, {0})


def test_a_step_without_its_message_is_refused() -> None:
    [step], messages = records(0)
    with pytest.raises(ValueError, match="step 0: its message 1 is not among those of the turn"):
        rows_of([step], messages[:1])


@sqlite_first
def test_the_store_and_the_player_count_the_same(database: Database) -> None:
    """Long messages are in a blob; a turn that ended before its action and a step without tokens count, too."""
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    [step], [seen, answer] = records(3)
    count = INLINE_MESSAGES_BYTES
    ids = [(7919 * number) % 2**31 for number in range(count)]
    long = replace(seen, index=0, tokens=ids, mask=[0] * count, logprobs=[nan] * count, versions=[NO_VERSION] * count)
    appended = [
        rows_of([replace(records(2)[0][0], index=0, message=None)], []),
        rows_of(
            [replace(step, index=1, message=1)],
            [long, replace(answer, index=1)],
        ),
        rows_of([], [replace(seen, index=2)]),
    ]
    written = Written()
    for rows in appended:
        written.add(rows)
        call(database, "append", trajectory="t", rows=rows)
    with database.read() as conn:
        assert turn_rows(conn, [1])[1].tally(conn, database.blobs, {}) == written.tally()
    call(database, "finish_trajectory", trajectory="t", status=Status.POLICY_ERROR, tally=written.tally())
    stored = load_trajectory(database, "t")
    assert [one.message for one in stored.steps] == [None, 1]
    assert [one.index for one in stored.messages] == [0, 1, 2]
    assert list(stored.messages[0].tokens) == ids


@sqlite_first
def test_messages_that_cannot_be_read_are_an_altered_step(database: Database) -> None:
    with pytest.raises(StepCorrupt, match="the messages of turn 3 cannot be read") as raised:
        messages_of({"idx": 3, "messages": b"\x09", "messages_blob": None}, {})
    assert raised.value.step == 3
