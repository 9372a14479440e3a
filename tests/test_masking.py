"""Printed and stored text contains no password, token or signature of a URL."""

import pytest
from turnwise.masking import without_secrets


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
