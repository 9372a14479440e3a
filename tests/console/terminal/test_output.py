"""JSON output is valid for every record."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.console.terminal.output import ago, console, format_value, jsonable, print_json, result_fields
from turnwise.records import Status

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.datetimes()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner), st.tuples(inner, inner)),
)


@dataclass(frozen=True)
class Carrier:
    """A record with a value of each type."""

    status: Status
    value: Any


@given(VALUES)
def test_any_value_round_trips_through_json(value: Any) -> None:
    plain = jsonable(Carrier(Status.COMPLETED, value))
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert jsonable(plain) == plain


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (math.nan, None),
        (np.float32("inf"), None),
        (np.int64(3), 3),
        (Status.TIMEOUT, "timeout"),
        ({1: (2,)}, {"1": [2]}),
        (b"\x00\xff", "00ff"),
        (Path("a/b"), "a/b"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
    ],
)
def test_each_type_is_converted(value: Any, plain: Any) -> None:
    assert jsonable(value) == plain


def test_one_document_on_stdout_with_control_characters_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "\x1b[2J\u202e"}, indent=None)
    assert capsys.readouterr().out == '{"text": "\\u001b[2J\\u202e"}\n'


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-5, "0 s"), (59, "59 s"), (90, "2 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_ages_are_short(seconds: int, shown: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == shown


def test_a_result_has_its_shares_in_per_cent_and_the_gain_and_the_best_with_their_intervals() -> None:
    gained = {"gain": 0.25, "gain_low": 0.1512, "gain_high": 0.3433}
    trained = {
        "success_untrained": None,
        "success_after": 0.5,
        "success_after_by_environment": {"find": 1.0},
        **gained,
        **{"best_success": 0.35, "best_success_low": 0.2637, "best_success_high": 0.4475},
        "stale_share": 0.9592,
    }
    assert result_fields(trained) == {
        "success_untrained": None,
        "success_after": "50.0%",
        "success_after_by_environment": {"find": "100.0%"},
        "gain": "25.0% [15.1%, 34.3%] (95% interval)",
        "best_success": "35.0% [26.4%, 44.8%] (95% interval)",
        "stale_share": "95.9%",
    }
    # No episode was scored.
    untold = dict.fromkeys(("gain", "gain_low", "gain_high"))
    assert result_fields(untold) == {"gain": None}
    assert result_fields({"success_after": math.nan}) == {"success_after": None}


def test_numbers_and_mappings_in_words() -> None:
    assert format_value({"find": 0.94123456, "open": 1.0, "n": 3}) == "find 0.9412, open 1, n 3"
    assert format_value(None) == ""
    assert format_value(float("nan")) == "not defined"


@pytest.mark.parametrize(("no_color", "styled"), [("", True), ("1", False)])
def test_no_color_leaves_no_style(monkeypatch: pytest.MonkeyPatch, no_color: str, styled: bool) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = console()
    with shown.capture() as captured:
        shown.print("head", style="bold")
    assert ("\x1b" in captured.get()) is styled
