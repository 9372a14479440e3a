"""Messages that were stored wrong, with digests that fit: the check of their structure finds each."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection, insert, update
from turnwise.records import NO_VERSION, Message, Role, Source
from turnwise.store.content.message_codec import encode
from turnwise.store.database import Database
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.schema import message_image, partial_turn, step
from turnwise.tests.store.conftest import sqlite_first
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.making import call, create_run, group, play, records


def stored(conn: Connection, messages: list[Message]) -> None:
    conn.execute(update(step).where(step.c.idx == 1).values(messages=encode(messages)))


def without_the_first(conn: Connection) -> None:
    stored(conn, list(records(1)[1][1:]))


def with_a_later_parent(conn: Connection) -> None:
    seen, answer = records(1)[1]
    stored(conn, [replace(seen, parent=3), answer])


def with_another_version(conn: Connection) -> None:
    seen, answer = records(1, version=1)[1]
    stored(conn, [seen, answer])


def with_one_token_less(conn: Connection) -> None:
    seen, answer = records(1)[1]
    stored(conn, [seen, replace(answer, tokens=[5], mask=[1], logprobs=[-0.5], versions=[0])])


def with_other_bytes(conn: Connection) -> None:
    conn.execute(update(step).where(step.c.idx == 1).values(messages=b"\x07"))


def with_an_image_of_no_message(conn: Connection) -> None:
    conn.execute(insert(message_image).values(trajectory_no=1, message_idx=9, idx=0, blob_hash="ab" * 32))


def with_a_partial_turn_of_nothing(conn: Connection) -> None:
    context = Message(6, 3, Role.USER, Source.ENV, [1], [0], [float("nan")], [NO_VERSION])
    values = {"trajectory_no": 1, "idx": 6, "messages": encode([context]), "digest": "00" * 8}
    conn.execute(insert(partial_turn).values(**values))


@sqlite_first
@pytest.mark.parametrize(
    ("alter", "field", "problem"),
    [
        (without_the_first, "messages", "message 2 of the trajectory is missing"),
        (with_a_later_parent, "messages", "message 2 names the parent 3, which does not precede it"),
        (with_another_version, "max_version", "is 0, but the messages have 1"),
        (with_one_token_less, "n_tokens", "is 4, but the messages have 3"),
        (with_other_bytes, "messages", "this turnwise reads 01 and 02"),
        (with_an_image_of_no_message, "message_idx", "names message 9, but the trajectory has 4"),
        (with_a_partial_turn_of_nothing, "messages", "message 4 of the trajectory is missing"),
    ],
)
def test_wrong_messages_are_found(
    database: Database, alter: Callable[[Connection], None], field: str, problem: str
) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t")
    assert list(check_store(database)) == []
    with database.transaction() as tx:
        alter(tx.conn)
    reseal(database)
    assert any(one.field == field and problem in one.problem for one in check_store(database))
