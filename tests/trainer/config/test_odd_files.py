"""A configuration in any encoding, and with any number, is read or refused in one line that says why."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from turnwise.trainer.config.errors import ConfigError
from turnwise.trainer.config.loading import load_config, parse_config, too_large

TEXT = 'name = "cfg"\npreset = "tiny"\nmax_steps = 1\n[[environments]]\nid = "turnwise/TextSite-v0"\n'
SMALLEST = {
    "name": "cfg",
    "environments": [{"id": "turnwise/TextSite-v0"}],
    "evaluation": {"interval": 5},
    "sft_warmup": {"episodes": 5},
}


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf" + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()])
def test_a_byte_order_mark_and_other_line_ends_are_accepted(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes(content)
    assert load_config(tmp_path / "run.toml").name == "cfg"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (f"# für Übung\n{TEXT}".encode("latin-1"), r"`run.toml` is not UTF-8 \(byte 3 is invalid\): save the file"),
        (TEXT.encode("utf-16"), r"is not UTF-8 \(byte 0 is invalid\)"),
        (TEXT.encode("utf-16-le"), "is not valid TOML"),
        (TEXT.encode() + b"\0", "is not valid TOML"),
        (b"a = " + b"[" * 100_000, "is not valid TOML: its values are nested too deeply"),
        (b"a = " + b"{a = " * 100_000, "is not valid TOML: its values are nested too deeply"),
        (b"a" + b".a" * 100_000 + b" = 1", "is not valid TOML: it has a dotted key with more than 200 parts"),
        (b"[a" + b' . "a"' * 100_000 + b"]", "is not valid TOML: it has a dotted key"),
        (b"a = " + b"9" * 10_000, "is not valid TOML: Exceeds the limit"),
        (b"x" * (2**20 + 1), r"cannot be read: it has more than 1,048,576 bytes"),
        (b"", "name"),
        (TEXT.replace("\n", "\r").encode(), "is not valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_in_utf_8_is_refused_with_its_reason(
    content: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        load_config("run.toml")


def numbers(resolved: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted keys of all numbers."""
    items = (
        resolved.items() if isinstance(resolved, dict) else enumerate(resolved) if isinstance(resolved, list) else ()
    )
    for key, value in items:
        yield from numbers(value, f"{path}.{key}" if path else str(key))
    if isinstance(resolved, int | float) and not isinstance(resolved, bool):
        yield path


KEYS = list(numbers(parse_config(SMALLEST).resolved()))


@pytest.mark.parametrize("value", ["1e400", "-inf", "nan", "9" * 40, "-" + "9" * 40, "9" * 5000, "0", "-1", "1e300"])
def test_no_number_of_a_configuration_is_too_large_for_its_purpose(value: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(TEXT)
    assert len(KEYS) > 60
    for key in KEYS:
        try:
            config = load_config(file, [f"{key}={value}"])
        except ConfigError as error:
            assert key.rpartition(".")[2] in str(error), (key, str(error))  # noqa: PT017 - the message is the matter
        else:
            assert not too_large(config.resolved())
            assert isfinite(float(value)), (key, value)


def test_a_table_of_an_environment_has_numbers_of_its_own() -> None:
    big = {"id": "turnwise/TextSite-v0", "options": {"anything": 2**60}}
    assert parse_config({"name": "cfg", "environments": [big]}).environments[0].options == {"anything": 2**60}
