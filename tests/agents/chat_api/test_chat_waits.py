"""The client of chat APIs repeats a request after the wait that the server asks for, within its timeout."""

import json
from email.utils import formatdate
from time import monotonic, time
from typing import Any

import pytest
from turnwise.agents.errors import EngineFailed
from turnwise.agents.players.chat_api.rejection import requested_wait_s
from turnwise.tests.agents.chat_api.chats import LATER, always, asked, choice
from turnwise.tests.agents.servers import Response


@pytest.mark.parametrize(
    ("status", "headers", "least_s"),
    [
        (429, {"Retry-After": "1"}, 1.0),
        (429, {"Retry-After-Ms": "300", "Retry-After": "60"}, 0.3),
        (503, {"Retry-After": "0"}, 0.5),
        (429, {}, 0.5),
        (529, {"Retry-After": "soon"}, 0.5),
        (429, {"Retry-After": "-5"}, 0.5),
        (429, {"Retry-After": "nan"}, 0.5),
        (0, {}, 0.5),
    ],
)
def test_a_request_is_repeated_after_the_wait_that_the_server_asks_for(
    status: int, headers: dict[str, str], least_s: float
) -> None:
    began = monotonic()
    answers = [(status, headers, b'{"error": {"message": "slow down"}}'), (200, {}, choice({"content": "go"}))]
    assert asked(lambda number, _: answers[number]) == "go"
    assert least_s <= monotonic() - began < least_s + 2


@pytest.mark.parametrize(
    ("words", "wait_s"),
    [
        ("Please try again in 1m2.5s. Visit", 62.5),
        ("try again in 20ms", 0.02),
        ("Please retry after 26 seconds.", 26),
        ("try again in 1h 2m", 3720),
        ("Try again in 2 minutes", 120),
        ("retry after adding a payment method", None),
        ("try again in a while", None),
        ("there are 5s", None),
    ],
)
def test_a_wait_may_be_in_words(words: str, wait_s: float | None) -> None:
    assert requested_wait_s({}, words) == (None if wait_s is None else pytest.approx(wait_s))
    assert requested_wait_s({"retry-after": "3"}, words) == 3


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "try later", "code": "server_overloaded"}},
        {"error": {"message": "busy", "type": "overloaded_error"}},
        [{"error": {"code": 429, "message": "slow down"}}],
        {"object": "error", "message": "slow down", "code": 503},
        {
            "choices": [
                {"finish_reason": "error", "error": {"code": 502, "message": "upstream"}, "message": {"content": ""}}
            ]
        },
    ],
)
def test_a_temporary_error_in_a_successful_response_is_waited_for(body: Any) -> None:
    answers: list[Response] = [(200, {}, json.dumps(body).encode()), (200, {}, choice({"content": "go"}))]
    assert asked(lambda number, _: answers[number], LATER) == "go"


def test_a_wait_of_zero_does_not_flood_the_server() -> None:
    asked_for = []

    def full(number: int, body: dict[str, Any]) -> Response:
        asked_for.append(number)
        return 503, {"Retry-After": "0"}, b'{"error": {"message": "loading"}}'

    with pytest.raises(EngineFailed, match="status 503: loading"):
        asked(full, timeout_s=2.5)
    assert 2 <= len(asked_for) <= 3


def test_a_wait_may_be_a_date() -> None:
    assert 8 < (requested_wait_s({"retry-after": formatdate(time() + 10, usegmt=True)}) or 0) <= 10
    assert requested_wait_s({"retry-after": formatdate(time() - 10, usegmt=True)}) == 0
    assert requested_wait_s({"retry-after": "Mon, 99 Foo 2026 00:00:00 GMT"}) is None
    assert requested_wait_s({}) is None


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Retry-After": "1e300"}, ""),
        ({"Retry-After-Ms": "1e300"}, ""),
        ({"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, ""),
        ({}, f"try again in {'9' * 400}h"),
    ],
)
def test_a_wait_without_bounds_is_more_than_a_day(headers: dict[str, str], message: str) -> None:
    began = monotonic()
    body = json.dumps({"error": {"message": message}}).encode()
    with pytest.raises(EngineFailed, match=r"the next try is more than a day away, and \d s of the timeout") as raised:
        asked(lambda *_: (429, headers, body), timeout_s=5)
    assert monotonic() - began < 4
    assert len(str(raised.value)) < 1000


def test_a_wait_beyond_the_timeout_ends_at_once_with_both_numbers() -> None:
    began = monotonic()
    with pytest.raises(EngineFailed, match=r"status 429: slow down; the next try is 3600 s away, and \d s of the"):
        asked(always(429, {"error": {"message": "slow down"}}, retry_after="3600"))
    assert monotonic() - began < 2
