"""The live view of a training run: a table that stays in place on a terminal, plain lines elsewhere.

The view renders the trainer's events. The store and the metrics file record the run. Plain lines for updates are
printed at most every ``LINE_INTERVAL_S`` seconds; notes and evaluations are always printed.
"""

import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .output import console, print_text
from .rates import interval, largest
from .sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...records import Limit
    from ...trainer.telemetry.events import EvalResult, Event, UpdateDone

MAX_ROWS = 12
LINE_INTERVAL_S = 2.0
PARTS_MAX = 4
"""Parts of the reward that a line has room for."""
STORED = {"success": "stored success", "reward": "stored reward"}
"""Names on the lines of a run that trains on stored episodes: the policy of the run did not play them."""
COLUMNS = (
    "update",
    "success",
    "reward",
    "turns",
    "horizon",
    "staleness",
    "tokens/s",
    "turns/s",
    "entropy",
    "limits",
    "groups",
)


class LiveView:
    """Prints the events of a run. Use it as a context manager, and call it with each event."""

    def __init__(self, run: str, *, stderr: bool = False, out: Console | None = None) -> None:
        self._run = run
        self._out = out or console(stderr=stderr)
        self._rows: deque[tuple[str, ...]] = deque(maxlen=MAX_ROWS)
        self._waiting = "the engine, to start"
        self._is_offline = False
        self._notes: list[str] = []
        self._next_line = 0.0
        self._held_back = ""
        self._left_out = 0
        """Updates since the last printed one."""
        self._live = Live(console=self._out, get_renderable=self._draw, refresh_per_second=2, transient=False)

    def __enter__(self) -> Self:
        if self._out.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live.is_started:
            self._live.stop()
        else:
            self._flush_pending()

    def __call__(self, event: "Event") -> None:
        """Show one event."""
        from ...trainer.telemetry.events import EvalResult, Note, UpdateDone

        match event:
            case UpdateDone():
                self._update(event)
            case EvalResult():
                self._flush_pending()
                self._print(_evaluated(event))
            case Note():
                self._flush_pending()
                print_text(event.text, out=self._out)

    def _update(self, event: "UpdateDone") -> None:
        row = _row(event)
        self._waiting, self._is_offline, self._notes = event.waiting, event.is_offline, _notes(event)
        self._rows.append(row)
        if self._live.is_started:
            return
        shown = dict(zip(COLUMNS, row, strict=True))
        if parts := _parts(event):
            shown["reward"] += f" ({parts})"
        if event.is_offline:
            shown = {STORED.get(name, name): value for name, value in shown.items()}
        line = "  ".join(f"{name} {value}" for name, value in shown.items() if value)
        line += "".join(f"  {text}" for text in _notes(event))
        if event.waiting and not event.is_offline:
            line += f"  waiting on {one_line(event.waiting)}"
        if self._left_out:
            line += f"  ({self._left_out} {'update' if self._left_out == 1 else 'updates'} before it not shown)"
        self._held_back = line
        self._left_out += 1
        if (now := time.monotonic()) >= self._next_line:
            self._flush_pending()
            self._next_line = now + LINE_INTERVAL_S

    def _flush_pending(self) -> None:
        """Print the pending update, so that the lines stay in order."""
        if self._held_back:
            self._print(self._held_back)
            self._held_back = ""
            self._left_out = 0

    def _print(self, line: str) -> None:
        self._out.print(Text(line), soft_wrap=True)

    def _draw(self) -> RenderableType:
        table = Table(title=Text(f"run {one_line(self._run)}"), title_justify="left", box=None, header_style="bold")
        for name in COLUMNS[:-2]:
            table.add_column(name, justify="right")
        for row in self._rows:
            table.add_row(*map(Text, row[:-2]))
        # Not columns: the table has to fit a terminal of 80 columns.
        limits, groups = self._rows[-1][-2:] if self._rows else ("", "")
        below = [f"groups: {groups or 'none'}"] if self._rows else []
        below += [f"cut by limits: {limits}"] if limits else []
        below += self._notes
        if self._is_offline:
            return Group(table, Text("success and reward are those of the stored episodes", style="dim"))
        below.append(f"waiting on {one_line(self._waiting)}" if self._waiting else "not waiting")
        return Group(table, Text("; ".join(below), style="dim"))


def _parts(event: "UpdateDone") -> str:
    """Return the parts of the mean reward; empty if there are many."""
    parts = event.reward_parts.items()
    return ", ".join(f"{one_line(name, 20)} {value:+.2f}" for name, value in parts) if len(parts) <= PARTS_MAX else ""


def _notes(event: "UpdateDone") -> list[str]:
    """Return that an update trained on nothing, and the metrics of components, if there are not many."""
    from ...trainer.telemetry.events import component_metrics

    found = ["TRAINED ON NOTHING: the gradient is 0"] if event.metrics.get("tokens") == 0 else []
    own = component_metrics(event.metrics).items()
    return found + [f"{one_line(name, 40)} {value:.3g}" for name, value in own if len(own) <= PARTS_MAX]


def _row(event: "UpdateDone") -> tuple[str, ...]:
    groups = " ".join(f"{one_line(state, 12)} {count}" for state, count in event.groups.items() if count)
    return (
        str(event.update),
        f"{event.success:.2f}",
        f"{event.reward:.2f}",
        f"{event.metrics['turns_per_episode']:.1f}" if "turns_per_episode" in event.metrics else "",
        str(event.horizon_turns),
        *(("", "", "") if event.is_offline else _rates(event)),
        "" if event.entropy is None else f"{event.entropy:.2f}",
        _limits(event.limits),
        groups,
    )


def _rates(event: "UpdateDone") -> tuple[str, str, str]:
    """Return staleness, tokens and turns per second."""
    staleness = f"{event.staleness_mean:.1f}/{event.staleness_max:g}"
    return staleness, f"{event.tokens_per_s:.0f}", f"{event.turns_per_s:.0f}"


def _limits(shares: "Mapping[Limit, float]") -> str:
    return " ".join(f"{limit} {share:.0%}" for limit, share in shares.items())


def _evaluated(event: "EvalResult") -> str:
    by_environment = event.by_environment.items() if len(event.by_environment) > 1 else ()
    rates = "".join(
        f"  {one_line(name)} {interval(one.success, one.low, one.high, '.2f')}" for name, one in by_environment
    )
    samples = f"  {at}" if (at := largest(event.pass_at, form=".3f")) else ""
    left_out = f"  ({event.failed} episodes failed and are left out)" if event.failed else ""
    own = f"  ({event.failed_by_policy} ended as policy_error or timeout)" if event.failed_by_policy else ""
    from ...trainer.telemetry.limits import notable

    limits = f"  cut by limits: {cut}" if (cut := _limits(notable(event.limits))) else ""
    shown = f"{one_line(event.name)}: success {event.success:.3f} [{event.low:.3f}, {event.high:.3f}]"
    return f"{shown}{samples}{rates}{limits}{left_out}{own}"
