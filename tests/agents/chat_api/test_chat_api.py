"""The client of chat APIs: each response is a text, or an error that names the cause and the party that caused it."""

import asyncio
from time import monotonic, sleep
from typing import Any

import pytest
from turnwise.agents.errors import EngineFailed, PolicyFailed
from turnwise.agents.players.chat_api import client
from turnwise.agents.players.chat_api.client import ChatApi, is_loopback
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.chat_api.chats import FIRST, LATER, always, asked, choice
from turnwise.tests.agents.servers import Response, scripted


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "assistant", "content": "go"}, "go"),
        ({"content": ""}, ""),
        ({"content": [{"type": "text", "text": "go"}]}, "go"),
        ({"content": [{"type": "text", "text": "g"}, {"type": "text", "text": "o"}]}, "go"),
        ({"content": [{"type": "output_text", "text": "go"}]}, "go"),
        ({"content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "go"}]}, "go"),
        ({"content": ["go"]}, "go"),
        ({"content": "go", "tool_calls": [{"id": "1"}], "refusal": None}, "go"),
        ({"content": "日本 😀 \ud800"}, "日本 😀 \ud800"),
    ],
)
def test_the_text_of_a_message_is_read_in_each_of_its_forms(message: Any, text: str) -> None:
    assert asked(always(200, choice(message, "length"))) == text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (choice({"content": None}, "length"), "`finish_reason` 'length'"),
        (choice({"content": None, "reasoning_content": "I think"}, "length"), "it returned reasoning only"),
        (choice({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"), "'tool_calls'): it called a tool"),
        (choice({"content": "", "tool_calls": [{"id": "1"}]}, "tool_calls"), "it called a tool"),
        (choice({"content": None, "function_call": {"name": "act"}}, "function_call"), "it called a tool"),
        (choice({"content": None, "refusal": "I cannot help"}), "it refused: I cannot help"),
        (choice({"content": [{"type": "refusal", "refusal": "no"}]}, "content_filter"), "'content_filter'"),
        (choice({"content": None}, "content_filter"), "`finish_reason` 'content_filter'"),
        (choice({"role": "assistant"}, None), "no `finish_reason`"),
        (choice({"content": []}), "the model returned no text"),
        (choice({"content": [{"type": "image_url"}]}), "the model returned no text"),
        (b'{"choices": []}', "the completion has no choices"),
        (b" " * (2**24 + 1), "the response is longer than 16,777,216 bytes"),
        (b'{"error": {"message": "blocked", "code": "content_filter"}}', "by a filter"),
    ],
)
def test_an_answer_without_a_text_is_a_failure_of_the_policy(body: bytes, reason: str) -> None:
    status = 400 if b'"error"' in body else 200
    with pytest.raises(PolicyFailed) as raised:
        asked(always(status, body))
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


UNREADABLE = [
    (200, b"<html><body>Sign in</body></html>", "is not JSON: <html>"),
    (200, b'data: {"choices": [{"delta": {"content": "go"}}]}\n\ndata: [DONE]\n\n', "is not JSON: data:"),
    (200, b"", "is not JSON"),
    (200, b"\xff\xfe\x00", "is not JSON"),
    (200, b"[" * 100_000, "is not JSON"),
    (200, b"null", "is not a chat completion: null"),
    (200, b'{"object": "list"}', "is not a chat completion"),
    (200, b'{"choices": {"0": 1}}', "is not a chat completion"),
    (200, choice({"content": 5}), "neither a text nor a list: 5"),
    (200, choice({"content": {"text": "go"}}), "neither a text nor a list"),
    (200, choice({"content": [{"type": "text", "text": {"value": "go"}}]}), "a part of `content` has no text"),
    (200, choice({"content": [3, None]}), "a part of `content` has no text: 3"),
    (200, choice(None), "the completion has no message"),
    (200, choice("go"), "the completion has no message"),
    (200, b'{"choices": [null]}', "the completion has no message"),
    (200, b'{"choices": [{"text": "go"}]}', "the completion has no message"),
    (200, b'{"object": "chat.completion.chunk", "choices": [{"delta": {"content": "go"}}]}', "has no message"),
    (200, b'{"choices": [{"message": {"content": "go"}}], "error": {"message": "upstream crashed"}}', "crashed"),
    (200, choice({"content": ""}, "error"), "`finish_reason` 'error'"),
    (200, choice({"content": "go t"}, "abort"), "`finish_reason` 'abort'"),
    (200, choice({"content": "go t"}, "ERROR"), "`finish_reason` 'ERROR'"),
    (200, choice({"content": "go t"}, "network_error"), "`finish_reason` 'network_error'"),
]


@pytest.mark.parametrize(("status", "body", "reason"), UNREADABLE)
def test_a_response_that_is_no_completion_is_a_failure_of_the_server_at_every_turn(
    status: int, body: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE_S", 0.01)
    for messages in (FIRST, LATER):
        with pytest.raises(EngineFailed) as raised:
            asked(always(status, body), messages)
        assert reason in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("body", [b"<html>504 Gateway Time-out</html>", b"", choice({"content": "go t"}, "abort")])
def test_a_request_is_repeated_after_a_response_that_is_no_completion(body: bytes) -> None:
    answers: list[Response] = [(200, {}, body), (200, {}, choice({"content": "go"}))]
    assert asked(lambda number, _: answers[number], LATER) == "go"


def test_a_server_that_returns_no_completion_is_asked_three_times() -> None:
    asked_for = []

    def broken(number: int, body: dict[str, Any]) -> Response:
        asked_for.append(number)
        return 200, {}, b"<html>504 Gateway Time-out</html>"

    with pytest.raises(EngineFailed, match="is not JSON: <html>504"):
        asked(broken, LATER, timeout_s=20)
    assert len(asked_for) == 3


INVALID = {"type": "string_too_short", "loc": ["body", "messages", 1, "content"], "msg": "at least 1 character"}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, {"error": {"message": "messages.1: all messages must have non-empty content"}}, "non-empty content"),
        (400, {"error": {"message": "invalid unicode in text"}}, "invalid unicode"),
        (422, {"detail": [INVALID]}, r"`body\.messages\.1\.content`: at least 1 character"),
    ],
)
def test_a_rejection_of_the_turns_counts_after_the_server_answered_before(status: int, body: Any, reason: str) -> None:
    for messages, error in ((FIRST, EngineFailed), (LATER, PolicyFailed)):
        with pytest.raises(error, match=reason):
            asked(always(status, body), messages)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "Your credit balance is too low to access the API.", "type": "invalid_request_error"}),
        (400, {"message": "API key expired. Please renew the API key.", "code": 400, "status": "INVALID_ARGUMENT"}),
        (400, {"message": "The model has crashed without additional information. (Exit code: 6)"}),
        (400, {"message": "Model unloaded."}),
        (400, {"message": "the access token has exceeded its lifetime"}),
        (400, {"message": "bad request", "type": "authentication_error"}),
        (422, {"message": "CUDA out of memory while decoding tokens"}),
        (400, {"message": "over the limit", "code": "insufficient_quota"}),
        (400, "<html><body>400 Bad Request</body></html>"),
        (200, {"message": "no provider"}),
        (400, {"message": "unknown field `stream`", "type": "BadRequestError", "code": 400}),
        (400, {"message": "Unsupported value: 'temperature' does not support 0.5 with this model."}),
        (400, {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}),
        (422, '{"detail": [{"loc": ["body", "model"], "msg": "Field required", "input": {"messages": ["content"]}}]}'),
    ],
)
def test_a_fault_of_the_account_the_key_or_the_server_is_never_one_of_the_policy(status: int, error: Any) -> None:
    for messages in (FIRST, LATER):
        with pytest.raises(EngineFailed):
            asked(always(status, error.encode() if isinstance(error, str) else {"error": error}), messages)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {"error": {"message": "Incorrect API key provided"}}, "status 401: Incorrect API key"),
        (404, {"object": "error", "message": "The model `x` does not exist."}, "The model `x` does not exist"),
        (500, {"error": "CUDA out of memory"}, "status 500: CUDA out of memory"),
        (200, {"error": {"message": "Provider returned error", "code": 502}}, "status 502"),
        (308, b"", "redirects to `https://elsewhere/v1`"),
        (500, b"<html>" + b"x" * 10_000, "…"),
    ],
)
def test_a_failure_of_the_server_is_shown_in_its_own_words(status: int, body: Any, reason: str) -> None:
    with pytest.raises(EngineFailed) as raised:
        asked(always(status, body, location="https://elsewhere/v1"), LATER, timeout_s=0.4)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 600


def test_repetitions_end_with_the_timeout_and_name_the_last_answer() -> None:
    began = monotonic()
    with pytest.raises(EngineFailed, match=r"status 503: loading model"):
        asked(always(503, {"error": {"message": "loading model"}}), timeout_s=1.5)
    assert monotonic() - began < 2


def test_an_exhausted_quota_is_not_waited_for() -> None:
    began = monotonic()
    with pytest.raises(EngineFailed, match="exceeded your current quota"):
        asked(always(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}))
    assert monotonic() - began < 2


def test_an_answer_that_is_late_is_a_failure_of_the_policy() -> None:
    def late(number: int, body: dict[str, Any]) -> Response:
        time_out = monotonic() + 1
        while monotonic() < time_out:
            pass
        return 200, {}, choice({"content": "go"})

    with pytest.raises(PolicyFailed, match=r"no complete answer within 0\.3 s"):
        asked(late, timeout_s=0.3)


@pytest.mark.parametrize("status", [503, 200])
def test_a_wait_that_the_caller_ends_names_the_fault_of_the_server(status: int) -> None:
    """The cause of the cancellation is the rejection before; an answer that is merely late has none."""

    async def main(url: str) -> BaseException | None:
        api = ChatApi(url, "the policy", 60)
        try:
            async with asyncio.timeout(0.3):
                try:
                    await api.text(FIRST)
                except asyncio.CancelledError as error:
                    return error.__cause__
        finally:
            await api.close()
        raise AssertionError("it answered")

    def respond(number: int, body: dict[str, Any]) -> Response:
        sleep(0.6 if status == 200 else 0)
        return status, {}, b"{}"

    with scripted(respond) as url:
        cause = asyncio.run(main(url))
    assert (isinstance(cause, EngineFailed) and "status 503" in str(cause)) if status == 503 else cause is None


def test_a_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "hunter-2-hunter-2\n")
    with pytest.raises(EngineFailed) as raised:
        asked(always(401, {"error": {"message": "no such key: hunter-2-hunter-2"}}), api_key_env="SERVER_KEY")
    assert "no such key: ***" in str(raised.value)
    assert "hunter" not in str(raised.value)


@pytest.mark.parametrize("value", [None, "", " ", "hun ter", "hunter\nx: y", "hünter"])
def test_a_key_that_cannot_be_sent_is_refused_without_its_value(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERVER_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SERVER_KEY", value)
    with pytest.raises(TurnwiseError, match="`SERVER_KEY`") as raised:
        ChatApi("http://127.0.0.1:1/v1", "the policy", 1, "SERVER_KEY")
    assert not any(part in str(raised.value) for part in ("hun", "hün"))


@pytest.mark.parametrize("url", ["ftp://host/v1", "://", "http://", "http://host:99999/v1", "http://[::1/v1"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(TurnwiseError, match="is not a URL"):
        ChatApi(url, "the policy", 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST.", "::1", "[::1]", "0.0.0.0"])  # noqa: S104
def test_loopback_needs_no_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    assert is_loopback(host)
    ChatApi(f"http://{f'[{host}]' if host == '::1' else host}:1/v1", "the policy", 1)


@pytest.mark.parametrize(
    ("variable", "proxy"),
    [
        ("ALL_PROXY", "socks5://u:hunter@127.0.0.1:1"),
        ("HTTP_PROXY", "gopher://u:hunter@p:1"),
        ("http_proxy", "ftp://p:1"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    variable: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(TurnwiseError, match=rf"of `{variable}` cannot be used: .*`NO_PROXY`") as raised:
        ChatApi("http://10.0.0.1:1/v1", "the policy", 1)
    assert "hunter" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_proxy_that_does_not_answer_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://u:hunter@127.0.0.1:9")

    async def main() -> None:
        api = ChatApi("http://10.0.0.1:1/v1", "the policy", 5)
        try:
            await api.text(FIRST)
        finally:
            await api.close()

    with pytest.raises(EngineFailed, match=r"through the proxy `http://u:\*\*\*@127\.0\.0\.1:9` of `HTTP_PROXY`"):
        asyncio.run(main())
