"""Printed and stored text contains no password, token or signature of a URL."""

from time import perf_counter

import pytest
from turnwise.base.masking import scrubbed, without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("runs/turnwise.db", "runs/turnwise.db"),
        ("runs/a@b.db", "runs/a@b.db"),
        ("http://127.0.0.1:8000/v1#org/model", "http://127.0.0.1:8000/v1#org/model"),
        ("postgresql://me@host:5432/x?sslmode=require", "postgresql://me@host:5432/x?sslmode=require"),
        ("postgresql://me:sec@ret@host/x", "postgresql://me:***@host/x"),
        ("postgresql://me:sec/ret@host/x", "postgresql://me:***@host/x"),
        ("postgresql:/me:secret@host/x", "postgresql:***@host/x"),
        ("http://user:secret@127.0.0.1:9/v1", "http://user:***@127.0.0.1:9/v1"),
        ("https://token@host/v1", "https://***@host/v1"),
        (
            "postgresql://h:port/x?password=a&user=me&sslpassword=b",
            "postgresql://h:port/x?password=***&user=me&sslpassword=***",
        ),
        ("postgresql://h/x?user=me&pass=a b&Pwd=c", "postgresql://h/x?user=me&pass=***&Pwd=***"),
        ("https://h/v1?sig=a&x=1&api-key=b&token=c", "https://h/v1?sig=***&x=1&api-key=***&token=***"),
        ("sqlite:///x.db?blobs=s3://key:secret@bucket/y", "sqlite:///x.db?blobs=s3://key:***@bucket/y"),
        ("host=h user=u password=secret dbname=d", "host=h user=u password=*** dbname=d"),
        ("host=h password = 'se c\\'ret' dbname=d", "host=h password = *** dbname=d"),
    ],
)
def test_secrets_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:p?password=1@host/x", "postgresql://me:***"),
        ("postgresql://h:1/x?password=a@b&user=me", "postgresql://h:***&user=me"),
        ("postgresql://me:p@h:1/x?password=a@b", "postgresql://me:***@h:***"),
    ],
)
def test_an_ambiguous_at_sign_masks_both_readings(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


BEGIN = "-----" + "BEGIN"
"""Split, because `make lint` refuses a file that holds the beginning of a private key."""
KEY = "a1B2c3D4" * 5
"""Letters and digits, as in a key."""


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"the key is sk-{KEY}, use it", "the key is ***, use it"),
        (f"sk-proj-{KEY}", "***"),
        (f"ghp_{KEY} and github_pat_{KEY}", "*** and ***"),
        (f"hf_{KEY}", "***"),
        (f"glpat-{KEY}", "***"),
        (f"AKIA{KEY[:16].upper()}", "***"),
        (f"AIza{KEY}", "***"),
        (f"xoxb-{KEY}", "***"),
        (f"cookie eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.{KEY}", "cookie ***"),
        (f"{BEGIN} RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----\nafter", "***\nafter"),
        (f"{BEGIN} PRIVATE KEY-----\n{KEY}", "***"),
        ("clone https://me:p4ss@host/x.git now", "clone https://me:***@host/x.git now"),
        (f"https://{KEY}@host/x", "https://***@host/x"),
        ("postgresql://me:p@ss@host/x", "postgresql://me:***@host/x"),
        ("GET https://host/x?a=1&api_key=abc&b=2", "GET https://host/x?a=1&api_key=***&b=2"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer ***"),
        ("export DB_PASSWORD='hunter2hunter2'", "export DB_PASSWORD='***'"),
        (f'{{"api_key": "{KEY}", "model": "m"}}', '{"api_key": "***", "model": "m"}'),
        (f"AWS_SECRET_ACCESS_KEY={KEY}", "AWS_SECRET_ACCESS_KEY=***"),
    ],
)
def test_secrets_in_a_text_are_masked(text: str, clean: str) -> None:
    assert scrubbed(text) == clean
    assert scrubbed(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "click [12] the password field; write to bob@example.com: hello @ noon",
        "def token(self) -> str:\n    return self.token_id == 3",
        "key = sorted(rows, key=lambda row: row.key)",
        "password: str = field(default='')",
        "max_tokens=512, total_tokens: 12345678",
        "https://host:8080/a@b?x=1#sk-learn",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "the risk-adjusted sk-learn-pipeline-of-today",
        "Enter the username 'ann' and the password 'x7Kq' in the form",
        "basic authentication of characters",
    ],
)
def test_prose_and_code_stay_as_they_are(text: str) -> None:
    assert scrubbed(text) == text


@pytest.mark.parametrize("unit", ["a-sk-", "token:", "?token", "http://a:", "eyJ-", "bearer a", "a://", "key-----"])
def test_masking_takes_linear_time(unit: str) -> None:
    began = perf_counter()
    scrubbed(unit * (60_000 // len(unit)))
    assert perf_counter() - began < 5
