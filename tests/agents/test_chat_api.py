"""The client of chat APIs: each response is a text, or an error that names the cause and the party that caused it."""

import asyncio
import json
from collections.abc import Callable
from email.utils import formatdate
from time import monotonic, time
from typing import Any

import pytest
from turnwise.agents.errors import ContextOutgrown, EngineFailed, PolicyFailed
from turnwise.agents.players.chat_api.client import ChatApi
from turnwise.agents.players.chat_api.proxies import is_loopback
from turnwise.agents.players.chat_api.rejection import Rejection, requested_wait_s
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.servers import Response, scripted

FIRST = ({"role": "user", "content": "a page"},)
LATER = (*FIRST, {"role": "assistant", "content": "back"}, {"role": "user", "content": "another page"})


def choice(message: Any, finish_reason: str | None = "stop") -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def asked(
    respond: Callable[[int, dict[str, Any]], Response], messages: Any = FIRST, timeout_s: float = 5, **options: Any
) -> str:
    async def main(url: str) -> str:
        api = ChatApi(url, "the policy", timeout_s, **options)
        try:
            return await api.text(messages)
        finally:
            await api.close()

    with scripted(respond) as url:
        return asyncio.run(main(url))


def always(status: int, body: bytes | dict[str, Any], **headers: str) -> Callable[[int, dict[str, Any]], Response]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda number, request: (status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


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
        (choice({"content": 5}), "`content` is 5"),
        (choice({"content": {"text": "go"}}), "the model returned no text"),
        (choice({"content": []}), "the model returned no text"),
        (choice({"content": [{"type": "image_url"}, 3, None]}), "the model returned no text"),
        (choice(None), "the completion has no message"),
        (choice("go"), "the completion has no message"),
        (b'{"choices": [null]}', "the completion has no message"),
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
    (400, b'{"error": {"message": "unknown field `stream`", "type": "BadRequestError", "code": 400}}', "unknown field"),
    (422, b'{"detail": [{"loc": ["body", "model"], "msg": "Field required"}]}', "Field required"),
]


@pytest.mark.parametrize(("status", "body", "reason"), UNREADABLE)
def test_a_response_that_is_no_answer_counts_only_after_the_server_answered_before(
    status: int, body: bytes, reason: str
) -> None:
    for messages, error in ((FIRST, EngineFailed), (LATER, PolicyFailed)):
        with pytest.raises(error) as raised:
            asked(always(status, body), messages)
        assert reason in str(raised.value)
        assert "\n" not in str(raised.value)


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


OUTGROWN: list[tuple[int, Any]] = [
    (400, "This model's maximum context length is 64 tokens. However, your request has 70 input tokens."),
    (400, "The decoder prompt (length 70) is longer than the maximum model length of 64."),
    (400, "max_tokens must be at least 1, got -6."),
    (400, "You passed 70 input tokens and requested 0 output tokens. However, the model's context length is only 64."),
    (400, {"message": "Your input exceeds the context window of this model.", "code": "context_length_exceeded"}),
    (400, {"message": "bad", "code": "context_length_exceeded"}),
    (400, {"message": "request (70 tokens) exceeds the available context size (64 tokens), try increasing it"}),
    (400, {"message": "too much", "type": "exceed_context_size_error", "n_ctx": 64}),
    (500, {"message": "Context size has been exceeded.", "type": "server_error"}),
    (400, "The input (70 tokens) is longer than the model's context length (64 tokens)."),
    (400, "Requested token count exceeds the model's maximum context length of 64 tokens."),
    (400, "Input length (70 tokens) exceeds the maximum allowed length (64 tokens)."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 64. Given: 60 `inputs` tokens and 20"),
    (422, "Input validation error: `inputs` must have less than 64 tokens. Given: 70"),
    (400, "prompt is too long: 200001 tokens > 200000 maximum"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    (400, "This model's maximum prompt length is 131072 but the request contains 150000 tokens."),
    (400, "Please reduce the length of the messages or completion."),
    (400, "Input is too long for requested model."),
    (400, "Prompt length (70) exceeds maximum input length (64). Set log level to info and check log"),
    (413, "Payload Too Large"),
    (429, "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 32000."),
]


@pytest.mark.parametrize(("status", "error"), OUTGROWN)
def test_an_outgrown_context_is_recognized_in_the_words_of_each_server(status: int, error: Any) -> None:
    fields = error if isinstance(error, dict) else {"message": error}
    bodies = [{"error": fields}, {"object": "error", **fields}, {"detail": fields["message"]}]
    for body in bodies[: 1 if len(fields) > 1 else 3]:
        with pytest.raises(ContextOutgrown, match="no longer fits") as raised:
            asked(always(status, body), LATER)
        assert fields["message"][:40] in str(raised.value)


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached, try again in 1s",
        "temperature must be at most 2",
        "unknown field `context`",
        "no such model",
    ],
)
def test_other_rejections_are_not_an_outgrown_context(message: str) -> None:
    assert not any(Rejection(status, message).outgrown for status in (400, 401, 404, 422, 429, 500, 503))


@pytest.mark.parametrize(
    ("status", "headers", "least_s"),
    [
        (429, {"Retry-After": "1"}, 1.0),
        (429, {"Retry-After-Ms": "300", "Retry-After": "60"}, 0.3),
        (503, {"Retry-After": "0"}, 0.0),
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


def test_a_wait_may_be_a_date() -> None:
    assert 8 < (requested_wait_s({"retry-after": formatdate(time() + 10, usegmt=True)}) or 0) <= 10
    assert requested_wait_s({"retry-after": formatdate(time() - 10, usegmt=True)}) == 0
    assert requested_wait_s({"retry-after": "Mon, 99 Foo 2026 00:00:00 GMT"}) is None
    assert requested_wait_s({}) is None


def test_a_wait_beyond_the_timeout_ends_at_once_with_both_numbers() -> None:
    began = monotonic()
    with pytest.raises(EngineFailed, match=r"status 429: slow down; the next try is 3600 s away, and \d s of the"):
        asked(always(429, {"error": {"message": "slow down"}}, retry_after="3600"))
    assert monotonic() - began < 2


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
