"""Rejections of chat APIs: each server's words for an outgrown context, a limit on requests and a filter."""

import json
from time import monotonic
from typing import Any

import pytest
from turnwise.agents.errors import ContextOutgrown
from turnwise.agents.players.chat_api.rejection import Rejection
from turnwise.tests.agents.chat_api.chats import LATER, always, asked, choice

BUSY = (
    "The model is busy, please try again later",
    "Service under maintenance",
    "The engine is temporarily unavailable",
    "All workers are at capacity; retry in a few seconds",
)
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
    (500, "input length 5000 exceeds maximum context length 4096"),
    (404, "context length exceeded"),
    (400, "This model's maximum context length is 4096 tokens, and check your API key's plan for a larger one."),
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
    (400, "prompt contains more than 4096 tokens"),
    (400, "Conversation is too long."),
    (400, "The request exceeds the limit of 4096 tokens"),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (400, "input characters limit is 30720"),
    (400, "this model only supports up to 8192 tokens; got 9000"),
    (200, {"message": "This model's maximum context length is 64 tokens, not 70.", "type": "invalid_request_error"}),
    (400, "Request exceeds the model's token limit of 8192"),
    (400, "The conversation exceeds the maximum input token limit"),
    (400, "Exceeded model token limit: 8192 (requested: 9000)"),
    (400, "This endpoint only accepts 4096 input tokens"),
    (413, "Payload Too Large"),
    (413, "Request too large for model x in organization y on tokens per minute (TPM): Limit 6000, Requested 7000"),
    (429, "Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 32000."),
]

ACCOUNT_LIMITS = [
    "You have exceeded your daily token limit",
    "Account exceeded token limit. Please upgrade",
    "Free tier only allows 100000 tokens a day",
    "This key only allows 50000 tokens per minute",
    "Your request exceeded the monthly token limit",
    "The request exceeds the limit of 50000 tokens per day of your plan",
    "Your plan only allows 8000 tokens",
    "You have exceeded your token limit",
    "Trial accounts only allow 1000 tokens",
    "The request exceeds your quota of 100000 tokens",
    "the maximum number of tokens per day is reached",
    "Too many tokens per day, please wait before trying again.",
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
        "Invalid input: temperature 1.5 exceeds the maximum",
        "Invalid input: max_tokens 5000 exceeds the maximum of 4096 tokens",
        "Invalid input: the value of `seed` is too large",
        "max_tokens is too large: 5000. This model only supports at most 4096 completion tokens, you provided 5000.",
        "the organization exceeded its token limit per minute",
        "the access token has exceeded its lifetime",
        "CUDA out of memory while decoding tokens; memory limit exceeded",
        "tokens exceeded: context deadline exceeded in the server's process, which is unavailable",
        "context deadline exceeded",
        *ACCOUNT_LIMITS,
    ],
)
def test_other_rejections_are_not_an_outgrown_context(message: str) -> None:
    assert not any(Rejection(status, message).outgrown for status in (200, 400, 401, 404, 422, 429, 500, 503))


@pytest.mark.parametrize("message", ACCOUNT_LIMITS)
def test_a_limit_of_the_account_is_no_failure_of_the_policy(message: str) -> None:
    assert not Rejection(413, message).outgrown
    assert Rejection(400, message).outside


def test_a_limit_of_an_account_is_named_on_one_line() -> None:
    words = "Prompt too long: input exceeds the context window; you exceeded your{}model's token limit"
    assert Rejection(400, words.format("\n")).outgrown
    assert not Rejection(400, words.format(" ")).outgrown


LIMITED = [
    (
        {
            "message": "Rate limit reached for gpt-x on requests per min (RPM): Limit 3. Please try again in 1s. You "
            "can increase your rate limit by adding a payment method at https://platform.openai.com/account/billing.",
            "type": "requests",
            "code": "rate_limit_exceeded",
        },
        {},
        1.0,
    ),
    (
        {
            "message": "Rate limit reached for model `x` on tokens per minute (TPM): Limit 6000, Used 5900. Please try "
            "again in 900ms. Need more tokens? Upgrade at https://console.groq.com/settings/billing",
            "code": "rate_limit_exceeded",
        },
        {},
        0.9,
    ),
    (
        {
            "code": 429,
            "message": "You exceeded your current quota, please check your plan and billing details. " + "x " * 200 + ""
            "\nPlease retry in 1.2s.",
            "status": "RESOURCE_EXHAUSTED",
        },
        {},
        1.2,
    ),
    ({"message": "Too many requests; add credits for more"}, {"Retry-After": "1"}, 1.0),
]


@pytest.mark.parametrize(
    ("error", "headers", "least_s", "in_list"),
    [
        *((*one, False) for one in LIMITED),
        (*LIMITED[0], True),
        *(pytest.param(*one, True, marks=pytest.mark.soak) for one in LIMITED[1:]),
    ],
)
def test_a_limit_per_minute_is_waited_for_although_it_mentions_payment(
    error: dict[str, Any], headers: dict[str, str], least_s: float, in_list: bool
) -> None:
    body = json.dumps([{"error": error}] if in_list else {"error": error}).encode()
    answers = [(429, headers, body), (200, {}, choice({"content": "go"}))]
    began = monotonic()
    assert asked(lambda number, _: answers[number]) == "go"
    assert least_s <= monotonic() - began < least_s + 2


@pytest.mark.parametrize(
    ("status", "message", "filtered"),
    [
        (400, "The response was filtered due to the content management policy", True),
        (403, "The model requires moderation, and your input was flagged", True),
        (403, "blocked by the content filter of your network", False),
        (503, "content filter unavailable", False),
    ],
)
def test_a_filter_of_a_network_is_not_one_of_the_server(status: int, message: str, filtered: bool) -> None:
    assert Rejection(status, message).filtered is filtered


@pytest.mark.parametrize("message", BUSY)
def test_a_busy_server_is_asked_again_whatever_its_status_is(message: str) -> None:
    assert Rejection(400, message).temporary
    assert Rejection(500, message).temporary
    assert not Rejection(400, "bad request").temporary
