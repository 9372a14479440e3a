"""The live view: a table on a terminal, plain lines elsewhere, and nothing beyond the events."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from turnwise.base.rates import Rate
from turnwise.console.terminal import live
from turnwise.console.terminal.live import LiveView
from turnwise.records import GroupState, Limit
from turnwise.trainer.telemetry.events import EvalResult, Note, UpdateDone


def update(number: int, waiting: str = "rollouts") -> UpdateDone:
    return UpdateDone(
        update=number,
        version=number,
        success=0.25,
        reward=-0.5,
        horizon_turns=8,
        staleness_mean=0.75,
        staleness_max=2,
        tokens_per_s=1234.0,
        turns_per_s=500.0,
        groups={GroupState.READY: 3, GroupState.OPEN: 12, GroupState.FAILED: 0},
        waiting=waiting,
        loss=0.1,
        entropy=1.5,
        seconds=number * 0.5,
    )


def watch(*events: UpdateDone | Note | EvalResult, terminal: bool = False, width: int = 140) -> str:
    shown = io.StringIO()
    with LiveView("demo", out=Console(file=shown, force_terminal=terminal, width=width, markup=False)) as view:
        for event in events:
            view(event)
    return shown.getvalue()


def test_plain_lines_are_throttled_but_the_last_update_is_printed() -> None:
    lines = watch(*(update(number) for number in range(1, 51))).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("update 1  success 0.25  reward -0.50  horizon 8  staleness 0.8/2  tokens/s 1234")
    assert lines[1].startswith("update 50 ")
    assert lines[1].endswith("groups ready 3 open 12  waiting on rollouts  (48 updates before it not shown)")


def test_a_line_leaves_out_the_entropy_that_the_loss_does_not_compute() -> None:
    assert "turns/s 500  entropy 1.50  groups" in watch(update(1))
    assert "turns/s 500  groups" in watch(replace(update(1), entropy=None))


def test_limits_that_cut_more_than_a_tenth_are_shown() -> None:
    cut = replace(update(1), limits={Limit.TOKENS_PER_TURN: 0.69, Limit.TURNS: 0.5})
    assert "entropy 1.50  limits max_tokens_per_turn 69% max_turns 50%  groups" in watch(cut)
    assert "cut by limits: max_tokens_per_turn 69% max_turns 50%; waiting" in watch(cut, terminal=True)
    shares = {"response_tokens": 4.0, "cut_turn_fraction": 0.69, "max_turns_fraction": 0.1}
    shares |= {"max_tokens_per_episode_fraction": 0.0, "max_context_fraction": 0.0}
    result = EvalResult("after", "r", 10, 0, 0, 0.5, 0.2, 0.8, 0.5, 4.0, limits=shares)
    assert "cut by limits: max_tokens_per_turn 69%" in watch(result)


def test_a_line_has_the_parts_of_the_reward_if_they_are_few() -> None:
    assert "reward -0.50 (found +0.25, cost -0.75)  hor" in watch(
        replace(update(1), reward_parts={"found": 0.25, "cost": -0.75})
    )
    assert "reward -0.50  hor" in watch(replace(update(1), reward_parts={str(name): 0.1 for name in range(5)}))


def test_an_update_that_trained_on_nothing_and_the_metrics_of_components_are_shown() -> None:
    event = replace(update(1), metrics={"tokens": 0.0, "turns_per_episode": 3.25, "loss/dropped_fraction": 1.0})
    line = "groups ready 3 open 12  TRAINED ON NOTHING: the gradient is 0  loss/dropped_fraction 1  waiting on"
    assert line in watch(event)
    assert "reward -0.50  turns 3.2  horizon 8" in watch(event)
    assert "TRAINED ON NOTHING" in watch(event, terminal=True)
    many = {"tokens": 4.0, "reward_part/found": 1.0} | {f"loss/{name}": 1.0 for name in range(5)}
    assert "groups ready 3 open 12  waiting on" in watch(replace(update(1), metrics=many))


def test_an_offline_run_does_not_look_like_learning() -> None:
    event = replace(update(1), is_offline=True, groups={})
    line = "update 1  stored success 0.25  stored reward -0.50  horizon 8  entropy 1.50\n"
    assert watch(event) == line
    shown = watch(event, terminal=True)
    assert "success and reward are those of the stored episodes" in shown
    assert "waiting" not in shown.rpartition("stored episodes")[2]
    assert "1234" not in shown


def test_lines_keep_the_order_of_events() -> None:
    lines = watch(update(1), update(2), Note("checkpoint written"), update(3)).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["update 1", "update 2", "checkpoint written", "update 3"]


def test_slow_updates_print_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINE_INTERVAL_S", 0.0)
    assert len(watch(*(update(number) for number in range(1, 6))).splitlines()) == 5


def test_notes_and_evaluations_are_lines_of_their_own() -> None:
    rates = {"find": Rate(99, 99, 0.4, 0.31, 0.5), "login": Rate(99, 99, 0.0, 0.0, 0.04)}
    held_out = EvalResult("warmup", "r", 198, 2, 0, 0.21, 0.16, 0.27, 0.2, 4.0, rates, 3.0)
    lines = watch(Note("resumed at update 40"), held_out).splitlines()
    assert lines == [
        "resumed at update 40",
        "warmup: success 0.210 [0.160, 0.270]  find 0.40 [0.31, 0.50]  login 0.00 [0.00, 0.04]  "
        "(2 episodes failed and are left out)",
    ]


def test_an_evaluation_with_several_samples_shows_pass_at_k() -> None:
    held_out = EvalResult("after", "r", 50, 0, 0, 0.5, 0.4, 0.6, 0.5, 4.0, pass_at={"2": 0.7, "4": 0.81, "10": 0.9})
    assert watch(held_out) == "after: success 0.500 [0.400, 0.600]  pass@10 0.900\n"


def test_a_terminal_gets_a_table_with_the_reason_of_a_wait() -> None:
    shown = watch(update(7, waiting="the slowest group"), terminal=True)
    assert "staleness" in shown
    assert "waiting on the slowest group" in shown


def test_an_update_is_one_line_on_a_terminal_of_80_columns() -> None:
    groups = {GroupState.OPEN: 20, GroupState.READY: 12, GroupState.SCORING: 11}
    shown = watch(replace(update(1034), groups=groups), terminal=True, width=80).splitlines()
    (row,) = [line for line in shown if "1034" in line]
    assert row.split() == ["1034", "0.25", "-0.50", "8", "0.8/2", "1234", "500", "1.50"]
    assert any("groups: open 20 ready 12 scoring 11; waiting on rollouts" in line for line in shown)


def test_text_of_a_note_moves_no_cursor() -> None:
    assert watch(Note("\x1b[2Jenvironment said [red]hi[/red]")) == "environment said [red]hi[/red]\n"
