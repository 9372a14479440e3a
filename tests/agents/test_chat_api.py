"""The client of chat APIs: each response is a text, or an error that names the cause and the party that caused it."""

import asyncio
import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from turnwise.agents.errors import ContextOutgrown, EngineFailed, PolicyFailed
from turnwise.agents.players import chat_api
from turnwise.agents.players.chat_api import ChatApi
from turnwise.errors import TurnwiseError
from turnwise.tests.agents.servers import Counter, Response, scripted, serving
from turnwise.tests.soak.sampling import crossed, in_soak

FIRST = ({"role": "user", "content": "a page"},)
LATER = (*FIRST, {"role": "assistant", "content": "back"}, {"role": "user", "content": "another page"})


def choice(message: Any, finish_reason: str | None = "stop") -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def from_url(url: str, messages: Any = FIRST, timeout_s: float = 5, **options: Any) -> str:
    async def main() -> str:
        api = ChatApi(url, "the policy", timeout_s, **options)
        try:
            return await api.text(messages)
        finally:
            await api.close()

    return asyncio.run(main())


def asked(respond: Callable[[int, dict[str, Any]], Response], messages: Any = FIRST, **options: Any) -> str:
    with scripted(respond) as url:
        return from_url(url, messages, **options)


def always(status: int, body: Any, **headers: str) -> Callable[[int, dict[str, Any]], Response]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda number, request: (status, {name.replace("_", "-"): value for name, value in headers.items()}, content)


@pytest.mark.parametrize(
    ("message", "text", "content_type"),
    crossed(
        [
            ({"role": "assistant", "content": "go"}, "go"),
            ({"content": ""}, ""),
            ({"content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "go"}]}, "go"),
            ({"content": "go", "tool_calls": [{"id": "1"}], "refusal": None}, "go"),
            ({"content": "日本 😀 \ud800"}, "日本 😀 \ud800"),
        ],
        ["application/json", "text/plain"],
    ),
)
def test_the_text_of_a_message_is_read_in_each_of_its_forms(message: Any, text: str, content_type: str) -> None:
    assert asked(always(200, choice(message, "length"), Content_Type=content_type)) == text


def test_an_observation_may_hold_what_utf_8_does_not() -> None:
    bodies = []

    def respond(number: int, body: dict[str, Any]) -> Response:
        bodies.append(body)
        return 200, {}, choice({"content": "go"})

    asked(respond, [{"role": "user", "content": "a \ud800"}], options={"temperature": 0.5})
    assert bodies == [{"messages": [{"role": "user", "content": "a ?"}], "stream": False, "temperature": 0.5}]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (choice({"content": None}, "length"), "`finish_reason` 'length'"),
        (choice({"content": None, "reasoning_content": "I think"}, "length"), "it returned reasoning only"),
        (choice({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"), "'tool_calls'): it called a tool"),
        *in_soak((choice({"content": "", "tool_calls": [{"id": "1"}]}, "tool_calls"), "it called a tool")),
        (choice({"content": None, "refusal": "I cannot help"}), "it refused: I cannot help"),
        (choice({"content": None}, "content_filter"), "`finish_reason` 'content_filter'"),
        (choice({"content": [{"type": "image_url"}]}), "returned no text"),
    ],
)
def test_an_answer_without_a_text_is_a_failure_of_the_policy(body: bytes, reason: str) -> None:
    with pytest.raises(PolicyFailed) as raised:
        asked(always(200, body))
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("body", "content_type"),
    crossed(
        [
            b"<html><body>Sign in</body></html>",
            b"[" * 100_000,
            b'data: {"choices": [{"delta": {"content": "go"}}]}\n\ndata: [DONE]\n\n',
            b"null",
            b'{"choices": {"0": 1}}',
            b'{"choices": [null]}',
            b'{"choices": []}',
            b'{"choices": [{"message": {"content": ""}, "finish_reason": null, "error": {"code": 502}}]}',
            choice({"content": ["a"]}),
            choice({"content": [{"type": "text", "text": {"value": "hi"}}]}),
            choice(None),
            choice({"content": 5}),
            b'{"choices": [{"message": {"content": "go"}}], "error": {"message": "upstream crashed"}}',
            choice({"content": "go t"}, "abort"),
        ],
        ["text/html", "application/json"],
    )
    + in_soak(*product((b"", b"\xff\xfe\x00", b"[1]", choice("go")), ("application/json", "text/html"))),
)
def test_a_response_that_is_no_completion_is_a_failure_of_the_server(body: bytes, content_type: str) -> None:
    with pytest.raises(EngineFailed) as raised:
        asked(always(200, body, Content_Type=content_type), LATER)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"message": "too much", "code": "context_length_exceeded"}, ContextOutgrown),
        (413, {"message": "Payload Too Large"}, ContextOutgrown),
        (200, {"message": "too much", "code": "context_length_exceeded"}, ContextOutgrown),
        (400, {"message": "blocked", "code": "content_filter"}, PolicyFailed),
        (400, {"message": "messages.1: must be not empty"}, EngineFailed),
        (400, {"message": "no credit", "code": "insufficient_quota"}, EngineFailed),
        (401, {"message": "Incorrect API key provided"}, EngineFailed),
        (308, "", EngineFailed),
        (500, "CUDA out of memory", EngineFailed),
        *in_soak(
            (400, {"message": "too much", "type": "exceed_context_size_error"}, ContextOutgrown),
            (400, {"message": "too much", "param": "input_tokens", "code": 400}, ContextOutgrown),
            (422, "kann ich nicht", EngineFailed),
            (403, {"message": "blocked by your network"}, EngineFailed),
            (404, {"message": "The model `x` does not exist."}, EngineFailed),
        ),
    ],
)
def test_a_rejection_is_charged_by_its_status_and_codes(
    status: int, error: Any, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_api, "MAX_RETRIES", 0)
    words = error["message"] if isinstance(error, dict) else error
    for messages in (FIRST, LATER):
        with pytest.raises(kind) as raised:
            asked(always(status, {"error": error}, location="https://elsewhere/v1"), messages)
        assert f"status {status}: {words}" in str(raised.value)


@pytest.mark.parametrize(
    ("status", "headers", "least_s"), [(429, {"Retry-After": "0.6"}, 0.6), (503, {}, 0.3), (0, {}, 0.3)]
)
def test_a_request_is_repeated_after_the_wait_that_the_server_asks_for(
    status: int, headers: dict[str, str], least_s: float
) -> None:
    began = monotonic()
    answers = [(status, headers, b'{"error": {"message": "slow down"}}'), (200, {}, choice({"content": "go"}))]
    assert asked(lambda number, _: answers[number]) == "go"
    assert least_s <= monotonic() - began < least_s + 2


def test_a_wait_of_more_than_two_minutes_is_a_failure_at_once() -> None:
    with pytest.raises(EngineFailed, match="status 429: slow down"):
        asked(always(429, {"error": {"message": "slow down"}}, retry_after="3600"))


@pytest.mark.parametrize(("status", "reason"), [(503, "status 503: .*loading model"), (0, "RemoteProtocolError: ")])
def test_retries_end_with_the_timeout_and_name_the_last_answer(status: int, reason: str) -> None:
    began = monotonic()
    with pytest.raises(EngineFailed, match=rf"within 0\.6 s; before, it returned {reason}"):
        asked(always(status, {"error": {"message": "loading model"}}), timeout_s=0.6)
    assert monotonic() - began < 2


def late(number: int, body: dict[str, Any]) -> Response:
    sleep(0.6)
    return 200, {}, choice({"content": "go"})


def test_an_answer_that_is_late_is_a_failure_of_the_server() -> None:
    with pytest.raises(EngineFailed, match=r"no complete answer within 0\.3 s"):
        asked(late, timeout_s=0.3)


@pytest.mark.parametrize("respond", [late, always(503, {})])
def test_a_wait_that_the_caller_ends_names_the_fault_of_the_server(respond: Any) -> None:
    """The cause of the cancellation names the rejection before, if there was one."""

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

    with scripted(respond) as url:
        cause = asyncio.run(main(url))
    assert isinstance(cause, EngineFailed)
    assert "returned no answer yet" in str(cause)
    assert ("status 503" in str(cause)) is (respond is not late)


def test_a_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "hunter-2-hunter-2\n")
    counter = Counter("go")
    with serving(counter) as url:
        from_url(url, api_key_env="SERVER_KEY")
    assert counter.requested == {("/v1/chat/completions", "Bearer hunter-2-hunter-2")}
    for status in (401, 503):
        with pytest.raises(EngineFailed) as raised:
            asked(
                always(status, {"error": {"message": "no such key: hunter-2-hunter-2"}}),
                api_key_env="SERVER_KEY",
                timeout_s=0.3,
            )
        assert "no such key: ***" in str(raised.value)
        assert "hunter" not in str(raised.value)


def test_a_key_in_the_url_is_not_shown_when_the_server_repeats_it() -> None:
    refused = always(401, {"error": {"message": "no such key: hunter-3-hunter, of hunter-4-hunter"}})
    with scripted(refused) as url, pytest.raises(EngineFailed, match=r"no such key: \*\*\*, of \*\*\*\)$") as raised:
        from_url(f"{url.replace('://', '://hunter-4-hunter@')}?api_key=hunter-3-hunter&v=1")
    assert "status 401" in str(raised.value)


def test_what_names_an_account_of_openai_is_not_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "hunter")
    counter = Counter("go")
    with serving(counter) as url:
        from_url(f"{url}/chat/completions/")
    assert counter.requested == {("/v1/chat/completions", None)}
    assert counter.headers.isdisjoint({"openai-organization", "openai-project"})


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


@pytest.mark.parametrize(
    ("variable", "value"), [("ALL_PROXY", "gopher://u:hunter@p:1"), ("SSL_CERT_FILE", "/no/such/file.pem")]
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_refused_in_one_line(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(TurnwiseError, match=rf"no connection can be made: .*`{variable}`") as raised:
        ChatApi("https://10.0.0.1:1/v1", "the policy", 1)
    assert "hunter" not in str(raised.value)
    assert "\n" not in str(raised.value)
    if variable == "ALL_PROXY":
        ChatApi("http://localhost:1/v1", "the policy", 1)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return the TLS of a server at 127.0.0.1 whose certificate no authority signed."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).add_extension(address, critical=True)
    made = made.public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(datetime(2026, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2126, 1, 1, tzinfo=UTC))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, *plain)
    pem += made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (folder / "server.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def test_the_certificate_of_a_server_on_this_machine_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_api, "MAX_RETRIES", 0)

    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=self_signed(tmp_path))
        api = ChatApi(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "the policy", 5)
        try:
            await api.text(FIRST)
        finally:
            await api.close()
            server.close()

    with pytest.raises(EngineFailed, match=r"CERTIFICATE_VERIFY_FAILED.*self-signed"):
        asyncio.run(main())
