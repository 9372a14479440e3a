"""``turnwise trajectories show``: one turn, one line per text, reward parts, and why nothing was trained on."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.records import GroupState, Purpose, Status
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database, open_database
from turnwise.store.operations.group_states import RUN_ENDED
from turnwise.tests.store.making import (
    call,
    group,
    play,
    play_group,
    records,
    sqlite_store,
    start,
    trajectory,
)

from ..conftest import Turnwise


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store with run ``r``, with trajectory ``g-0`` of three turns, and others by state."""
    made = sqlite_store(tmp_path)
    database = open_database(made)
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("g-0"))
    for index, parts in enumerate(({"found": 0.5, "cost": -0.25}, {"cost": -0.25}, {})):
        (step,), messages = records(index, text=f"page {index}\n" + "x" * 200)
        rows = rows_of([replace(step, reward_parts=parts, reward=sum(parts.values()))], messages)
        call(database, "append", trajectory="g-0", rows=rows)
    call(database, "finish_trajectory", trajectory="g-0", status=Status.COMPLETED, reward=0.0, final_observation="end")
    _groups(database)
    database.close()
    return made


def _groups(database: Database) -> None:
    for name, state, reason in (
        ("f", GroupState.FILTERED, "all returns equal"),
        ("x", GroupState.FAILED, "1 of 2 members survived"),
        ("c", GroupState.FAILED, RUN_ENDED),
    ):
        call(database, "open_group", group=group(name))
        play(database, f"{name}-0", name)
        call(database, "close_group", group=name, state=state, reason=reason)
    play_group(database, "q")
    call(database, "open_group", group=group("e", purpose=Purpose.EVAL))
    play(database, "e-0", "e")
    call(database, "close_group", group="e", state=GroupState.FILTERED, reason="evaluation")


def test_the_parts_of_a_reward_are_shown_per_turn_and_in_total(turnwise: Turnwise, url: str) -> None:
    lines = turnwise("trajectories", "show", "g-0", "--store", url).out.splitlines()
    assert "reward parts  found +0.5, cost -0.5" in lines
    assert [line for line in lines if line.startswith("   > ")] == [
        "   > click 0  +0.25  (found +0.5, cost -0.25)",
        "   > click 1  -0.25  (cost -0.25)",
        "   > click 2  +0",
    ]


def test_one_turn_and_one_line_per_text(turnwise: Turnwise, url: str) -> None:
    show = ("trajectories", "show", "g-0", "--store", url)
    assert turnwise(*show, "--turn", "1").out.splitlines() == [
        "1  page 1",
        "   | " + "x" * 200,
        "   > click 1  -0.25  (cost -0.25)",
        "   version 0  1 + 0 ms  state state-1",
    ]
    assert [step["index"] for step in json.loads(turnwise(*show, "--turn", "1", "--json").out)["steps"]] == [1]
    brief = turnwise(*show, "--brief").out.splitlines()
    assert brief[brief.index("") + 1 :] == [
        line for at in range(3) for line in (f"{at}  page {at} {'x' * 92}…", turn_line(at))
    ] + ["   end"]
    missing = turnwise(*show, "--turn", "3")
    assert (missing.code, missing.out) == (2, "")
    assert "`--turn 3`: trajectory g-0 has turns 0 to 2" in missing.err


def turn_line(at: int) -> str:
    return f"   > click {at}  " + ("+0.25  (found +0.5, cost -0.25)", "-0.25  (cost -0.25)", "+0")[at]


def test_only_the_texts_of_tokens_need_the_package_that_decodes_them(
    turnwise: Turnwise, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    show = ("trajectories", "show", "g-0", "--store", url)
    (tmp_path / "r" / "tokenizer").mkdir(parents=True)
    (tmp_path / "r" / "tokenizer" / "tokenizer.json").write_text("{}")
    for flag in ("--turn=0", "--json"):
        assert turnwise(*show, flag).code == 0
    refused = turnwise(*show, "--tokens")
    assert (refused.code, refused.out) == (2, "")
    assert "needs tokenizers, which is not installed: run `make install`" in refused.err


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("g-0", "not yet: its group is open"),
        ("q-0", "not yet: its group is ready"),
        ("f-0", "no: its group was filtered: all returns equal"),
        ("x-0", "no: its group failed: 1 of 2 members survived"),
        ("c-0", "no: the run ended while its group was played"),
        ("e-0", "no: it is an evaluation, which no update trains on"),
    ],
)
def test_the_reason_for_which_nothing_was_trained_on_is_shown(
    turnwise: Turnwise, url: str, name: str, reason: str
) -> None:
    assert f"trained on    {reason}\n" in turnwise("trajectories", "show", name, "--brief", "--store", url).out
    assert turnwise("trajectories", "lineage", name, "--store", url).out.endswith(f"\n{reason}\n")


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [
        (("show", "g-0"), "--brief", "--json"),
        (("show", "g-0"), "--brief", "--tokens"),
        (("list",), "--ids", "--json"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    turnwise: Turnwise, url: str, command: tuple[str, ...], first: str, second: str
) -> None:
    refused = turnwise("trajectories", *command, first, second, "--store", url)
    assert (refused.code, refused.out) == (2, "")
    assert f"`{first}` and `{second}` exclude each other" in refused.err


def test_tokens_without_a_tokenizer_have_no_text(turnwise: Turnwise, url: str) -> None:
    shown = turnwise("trajectories", "show", "g-0", "--tokens", "--turn", "0", "--store", url).out.splitlines()
    assert shown[4].split() == ["id", "source", "mask", "logprob", "version"]
    assert [line.split() for line in shown[5:]] == [
        *(([token, "env", "0"]) for token in ("10", "11", "12")),
        ["5", "policy", "1", "-0.5", "0"],
        ["2", "policy", "1", "-0.25", "0"],
    ]
