"""``turnwise runs compare``: the numbers, settings and curves of several runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import Json, Store, complete_run, open_store
from ..terminal.output import console, duration, print_json
from ..terminal.rates import interval, largest, print_rates
from ..terminal.sanitize import sanitize
from ..terminal.tables import print_table

if TYPE_CHECKING:
    from ...store.database import Database
    from ...trainer.run.comparison import ComparedRun, Comparison, PairedDifference

COLUMNS = (
    *("run", "status", "split", "evaluated", "difference", "pass@k", "updates", "success", "reward", "trained tokens"),
    *("time", "kind", "environments"),
)
REQUIRED = 5


class NotDrawn(TurnwiseError):
    """The picture of ``--plot`` cannot be written."""


def compare_runs(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="The names of the runs, the baseline first.", autocompletion=complete_run),
    ],
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Write the curves of all runs as one picture.")
    ] = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Compare runs: success in an evaluation with its 95 % interval, the difference to the first run, and settings.

    The split is that of the evaluated tasks. The difference is the mean over the tasks that both runs were evaluated
    on. Success and reward are those of the newest update, or of an evaluation.
    """
    from ...trainer.run.comparison import compare, load_compared

    names = list(dict.fromkeys(runs))
    with open_store(store) as database:
        found = compare(load_compared(database, names))
        if plot is not None:
            _draw(database, names, plot)
    if as_json:
        print_json(found)
    else:
        print_table(
            COLUMNS,
            [_row(one, is_first=not place) for place, one in enumerate(found.runs)],
            empty="",
            required=REQUIRED,
        )
        print_rates({one.run: one.by_environment for one in found.runs}, ".2f")
        _print_settings(found)
    if plot is not None:
        console(stderr=True).print(f"curves written to {sanitize(str(plot))}", soft_wrap=True)


def _print_settings(found: "Comparison") -> None:
    """Print the settings in which the runs that have the kind of the first one differ."""
    first, *others = found.runs
    alike = [one.run for one in found.runs if one.kind == first.kind]
    empty = "the settings of the runs do not differ"
    if len(alike) == 1:
        empty = f"no settings are compared: only {first.run} is a run of kind `{first.kind}`"
    if others:
        console().print()
        settings = [(key, *(values.get(name, "-") for name in alike)) for key, values in found.settings.items()]
        print_table(("setting", *alike), settings, empty=empty)


def _row(one: "ComparedRun", *, is_first: bool) -> tuple[object, ...]:
    rate = one.rate
    success = one.batch_success if one.batch_success is not None or rate is None else rate.success
    return (
        *(one.run, one.status, one.split, "" if rate is None else interval(rate.success, rate.low, rate.high, ".2f")),
        "" if is_first else _difference(one.difference),
        "" if rate is None else largest(rate.pass_at, form=".2f"),
        *(one.updates or "", "" if success is None else f"{success:.2f}", one.reward),
        *(f"{one.tokens:,}" if one.tokens else "", duration(one.wall_s), one.kind),
        ", ".join(one.environments),
    )


def _difference(one: "PairedDifference | None") -> str:
    return "no common task" if one is None else f"{interval(one.mean, one.low, one.high, '+.2f')}, {one.tasks} tasks"


def _draw(database: "Database", names: Sequence[str], path: Path) -> None:
    from ...trainer.run.curve import draw, load_curves

    with database.read() as conn:
        curves = [curve for curve in load_curves(conn, names) if curve.updates]
    if not curves:
        raise NotDrawn(f"`--plot {path}`: no update of {', '.join(names)} is in the store")
    try:
        draw(curves, path)
    except (OSError, ValueError) as error:
        raise NotDrawn(f"`--plot {path}`: {error}") from error
