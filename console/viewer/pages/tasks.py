"""The tasks of a run over time: success per task and per family in windows of updates, and its change."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ....records import Purpose
from ....store import queries
from ....store.database import Database
from ....store.queries.task_history import Played, TaskHistory
from ..given import BadAddress, Given

PAGE_ROWS = 50
WINDOWS_MAX = 10
"""Windows of training, and the newest evaluations that are shown unless all are asked for."""
WIDTHS = tuple(digit * 10**power for power in range(10) for digit in (1, 2, 5))
"""Updates per window."""
SORTS = ("worse", "better", "lowest", "highest")

Row = tuple[TaskHistory, Sequence[Played]]
"""A task, and its episodes per window."""


class OfFamily(Protocol):
    """A task, or what is known of one."""

    @property
    def env_id(self) -> str: ...

    @property
    def options(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Window:
    """The episodes of the evaluations of one version, or those that the versions of some updates played."""

    label: str
    update: int
    """The first one; -1 for the weights before a warmup."""
    versions: tuple[int, int] | None
    """The first and the last id; None for a run whose episodes have no version."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The counted episodes of a task or a family in a window."""

    counted: int
    success: float | None
    """None without a counted episode."""
    example: str | None = None
    """Id of the newest of them, for a task in the two windows that are compared."""


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task or a family with its results in the windows."""

    task: str | None
    """None for a family."""
    family: str
    seed: int | None
    split: str
    tasks: int
    cells: Sequence[Cell]
    change: float | None
    """Of success from the earlier to the later one of the windows that are compared."""


@dataclass(frozen=True, slots=True)
class TasksPage:
    """The tasks of a run over time."""

    run: str
    purpose: str
    purposes: Sequence[str]
    family: str | None
    sort: str
    sorts: Sequence[str]
    windows: Sequence[Window]
    shown: Sequence[int]
    """Places of the windows that the page shows: the newest ones, and those that are compared."""
    earlier: int
    """Place of the window that the later one is compared with."""
    later: int
    families: Sequence[TaskLine]
    tasks: Sequence[TaskLine]
    total: int
    """Tasks of the family, or all."""
    worse: int
    """Of these, the ones whose success fell."""
    better: int
    compared: int
    """Tasks with an episode in both windows."""
    samples: tuple[int, int] | None
    """The fewest and the most counted episodes of a task in one of these windows; None without one."""
    start: int
    next_start: int | None


def load_tasks(database: Database, given: Given) -> TasksPage:
    """Return the tasks of a run, those first whose success fell most between the windows ``from`` and ``to``."""
    run, sort = given.path["run"], given.choice("sort", SORTS) or SORTS[0]
    chosen, family, start = given.choice("purpose", list(Purpose)), given.text("family"), given.number("start")
    with database.read() as conn:
        is_training = queries.find_run(conn, run).kind == "train"
        names = {one.update: one.name for one in queries.evaluation_marks(conn, [run]).get(run, [])}
        purpose = Purpose(chosen or (Purpose.TRAIN if is_training and not names else Purpose.EVAL))
        histories = queries.task_histories(conn, run, purpose)
        updates = queries.surviving_updates(conn, run)
        windows, places = windows_of(histories, updates, names if purpose is Purpose.EVAL else {})
        defaults = {"from": first_trained(windows), "to": len(windows) - 1}
        pair = [_place(given.text(name), windows, default) for name, default in defaults.items()]
        whole: list[Row] = [(one, merged(one, places, len(windows))) for one in histories]
        rows = sorted((row for row in whole if family in (None, family_of(row[0]))), key=_order(sort, *pair))
        shown = rows[start : start + PAGE_ROWS]
        examples = {played[place].example for _, played in shown for place in pair if played[place].counted}
        known = queries.trajectory_names(conn, examples)
    changes = [change for _, played in rows if (change := _change(played, *pair)) is not None]
    counts = {counted for _, played in rows for place in pair if (counted := played[place].counted)}
    end = start + PAGE_ROWS
    return TasksPage(
        run=run,
        purpose=purpose.value,
        purposes=[one.value for one in Purpose],
        family=family,
        sort=sort,
        sorts=SORTS,
        windows=windows,
        shown=_shown(len(windows), None if given.text("columns") else WINDOWS_MAX, pair),
        earlier=pair[0],
        later=pair[1],
        families=_families(whole, pair),
        tasks=[_line(one.task, one.seed, [one], played, pair, known) for one, played in shown],
        total=len(rows),
        worse=sum(one < 0 for one in changes),
        better=sum(one > 0 for one in changes),
        compared=len(changes),
        samples=(min(counts), max(counts)) if counts else None,
        start=start,
        next_start=end if end < len(rows) else None,
    )


def _shown(count: int, most: int | None, pair: Sequence[int]) -> list[int]:
    newest = range(count if most is None else min(most, count))
    return sorted({count - 1 - place for place in newest} | set(pair))


def first_trained(windows: Sequence[Window]) -> int:
    """Return the place of the first window after a warmup, unless it is the last: untrained, no task can get worse."""
    return next((place for place, one in enumerate(windows[:-1]) if one.update >= 0), 0)


def windows_of(
    histories: Iterable[TaskHistory], updates: Mapping[int, int], names: Mapping[int, str]
) -> tuple[list[Window], dict[int | None, int]]:
    """Return the windows of the episodes' versions, oldest first, and the place of the window of each version.

    Args:
        updates: the number of the update that made each surviving version.
        names: of the evaluations, by update: each has its own window. Without names, equally many updates share one.
    """
    versions = {version for one in histories for version in one.played}
    known = sorted((updates[one], one) for one in versions if one is not None and one in updates)
    if not known:
        return [Window("all", 0, None)], dict.fromkeys(versions, 0)
    first, last = known[0][0], known[-1][0]
    width = 1 if names else next(one for one in WIDTHS if last // one - max(first, 0) // one < WINDOWS_MAX)
    members: dict[int, list[int]] = defaultdict(list)
    for update, version in known:
        members[update if update < 0 else update // width * width].append(version)
    places: dict[int | None, int] = {}
    windows = []
    for place, (update, of_window) in enumerate(members.items()):
        label = names.get(update, f"{update}–{update + width - 1}" if width > 1 else str(max(update, 0)))
        windows.append(Window(label, update, (min(of_window), max(of_window))))
        places |= dict.fromkeys(of_window, place)
    return windows, places


def merged(history: TaskHistory, places: Mapping[int | None, int], count: int) -> Sequence[Played]:
    """Return the episodes of a task per window."""
    of_window: list[list[Played]] = [[] for _ in range(count)]
    for version, one in history.played.items():
        if (place := places.get(version)) is not None:
            of_window[place].append(one)
    return [total(one) for one in of_window]


def total(parts: Sequence[Played]) -> Played:
    """Return the episodes of all ``parts``."""
    if len(parts) == 1:
        return parts[0]
    counted, successes, examples = zip(*parts, strict=True) if parts else ((), (), ())
    return Played(sum(counted), sum(successes), max(examples, default=0))


def family_of(task: OfFamily) -> str:
    """Return the environment of a task with its options."""
    return " · ".join([task.env_id, *(f"{key} {value}" for key, value in sorted(task.options.items()))])


def _families(rows: Iterable[Row], pair: Sequence[int]) -> list[TaskLine]:
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_name[family_of(row[0])].append(row)
    found = []
    for _, of in sorted(by_name.items()):
        played = [total(parts) for parts in zip(*(one for _, one in of), strict=True)]
        found.append(_line(None, None, [one for one, _ in of], played, pair, {}))
    return found


def _line(
    task: str | None,
    seed: int | None,
    histories: Sequence[TaskHistory],
    played: Sequence[Played],
    pair: Sequence[int],
    examples: Mapping[int, str],
) -> TaskLine:
    cells = [Cell(one.counted, one.success, examples.get(one.example)) for one in played]
    splits = ", ".join(sorted({one.split for one in histories}))
    return TaskLine(task, family_of(histories[0]), seed, splits, len(histories), cells, _change(played, *pair))


def _change(played: Sequence[Played], earlier: int, later: int) -> float | None:
    before, after = played[earlier].success, played[later].success
    return None if before is None or after is None else after - before


def _order(sort: str, earlier: int, later: int) -> Callable[[Row], tuple[float, ...]]:
    """Return the key of a sort; tasks without the value are last, and those with more episodes first among equals."""

    def key(row: Row) -> tuple[float, ...]:
        history, played = row
        value = _change(played, earlier, later) if sort in ("worse", "better") else played[later].success
        sign = 1 if sort in ("worse", "lowest") else -1
        return (value is None, sign * (value or 0.0), -sum(one.counted for one in history.played.values()))

    return key


def _place(text: str | None, windows: Sequence[Window], default: int) -> int:
    """Return the place of the window that a label or the number of an update names. Raises BadAddress."""
    if text is None:
        return default
    labels = [one.label for one in windows]
    if text in labels:
        return labels.index(text)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadAddress(f"{text[:80]!r} is neither an update nor one of {', '.join(labels)}")
    return max((place for place, one in enumerate(windows) if one.update <= int(text)), default=0)
