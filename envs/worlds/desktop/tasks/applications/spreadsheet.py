"""Tasks in the spreadsheet."""

from .....draws import NoInstance, SeededDraws
from ...spreadsheet import Value, column, write_workbook
from ..expected import Expected, Sheet, Text
from ..template import ENTER, SAVE, Acts, DesktopRegistry, Plan, click, done, menu, press, save_as, write
from .documents import ITEMS, PLACES

registry = DesktopRegistry("spreadsheet")
HEADER = ("Item", "Price", "Count")
Rows = tuple[tuple[Value, ...], ...]


def table(draws: SeededDraws, low: int = 4, high: int = 7) -> tuple[str, Rows]:
    """Draw the name of a workbook, and its rows: a header, then items with a price and a count."""
    items = draws.sample(ITEMS, draws.integer(low, high))
    prices, counts = (draws.sample(range(2, 99), len(items)) for _ in range(2))
    return f"{draws.choice(PLACES).lower()}.xlsx", (HEADER, *zip(items, prices, counts, strict=True))


def go_to(reference: str) -> Acts:
    """Select a cell or a range by its reference."""
    return (*press("ctrl+g"), *press("ctrl+a"), write(reference), ENTER, *press("Escape"))


def set_cell(reference: str, value: Value) -> Acts:
    """Replace the content of a cell."""
    return (*go_to(reference), write(f"{value}\n"))


def edit(goal: str, name: str, rows: Rows, sheet: Sheet, change: Acts, *wrong: Acts) -> Plan:
    """Return a plan that changes the open workbook to ``sheet`` and saves it. ``wrong`` are other changes."""
    return Plan(
        goal,
        (f"gnumeric {name}",),
        {name: write_workbook(rows)},
        Expected({name: sheet}),
        (*change, SAVE),
        (change, *((*other, SAVE) for other in wrong)),
    )


def with_cell(rows: Rows, row: int, place: int, value: Value) -> Rows:
    """Return the rows with another value in one cell; both numbers from 0."""
    changed = (*rows[row][:place], value, *rows[row][place + 1 :])
    return (*rows[:row], changed, *rows[row + 1 :])


@registry.template()
def set_price(draws: SeededDraws) -> Plan:
    """Change one number."""
    name, rows = table(draws)
    place, other = draws.sample(range(1, len(rows)), 2)
    price = draws.choice([number for number in range(100, 200) if number != rows[place][1]])
    cell, wrong = f"B{place + 1}", f"B{other + 1}"
    goal = f"In the open table, change the price of {rows[place][0]} to {price}. Save the workbook."
    right, elsewhere, count = set_cell(cell, price), set_cell(wrong, price), set_cell(f"C{place + 1}", price)
    changed = Sheet(with_cell(rows, place, 1, price))
    return edit(goal, name, rows, changed, right, elsewhere, count, (*right, *elsewhere))


def _aggregate(draws: SeededDraws, function: str, wanted: str) -> Plan:
    name, rows = table(draws)
    index = draws.integer(1, 2)
    letter, last = column(index), len(rows)
    numbers = [int(row[index]) for row in rows[1:]]
    result = sum(numbers) if function == "sum" else max(numbers)
    cell, formula = f"{letter}{last + 1}", f"={function}({letter}2:{letter}{last})"
    below = tuple(result if place == index else "" for place in range(3))
    right = set_cell(cell, formula)
    return edit(
        f'Compute {wanted} of the column "{HEADER[index]}" with a formula in cell {cell}, and save the workbook.',
        name,
        rows,
        Sheet((*rows, below), frozenset({cell})),
        right,
        *(set_cell(cell, result), set_cell(f"{letter}{last + 2}", formula), (*right, *set_cell("A1", "Things"))),
    )


@registry.template()
def column_sum(draws: SeededDraws) -> Plan:
    """Add up a column with a formula."""
    return _aggregate(draws, "sum", "the sum")


@registry.template()
def column_maximum(draws: SeededDraws) -> Plan:
    """Compute the largest number of a column with a formula."""
    return _aggregate(draws, "max", "the largest number")


@registry.template()
def add_row(draws: SeededDraws) -> Plan:
    """Add a row at the end of the table."""
    name, rows = table(draws, 5, 7)
    *rows_before, added = rows
    item, price, count = added
    line = len(rows)

    def added_at(row: int, *values: Value) -> Acts:
        return (*go_to(f"A{row}"), write("\t".join(map(str, values)) + "\n"))

    return edit(
        f"Add a row below the table: item {item}, price {price}, count {count}. Save the workbook.",
        name,
        tuple(rows_before),
        Sheet(rows),
        added_at(line, item, price, count),
        added_at(line, item, count, price),
        added_at(line + 1, item, price, count),
        added_at(line, item, price),
    )


@registry.template()
def clear_row(draws: SeededDraws) -> Plan:
    """Delete a row that is not the last one, so that clearing its cells is not enough."""
    name, rows = table(draws)
    place, other = draws.sample(range(1, len(rows) - 1), 2)

    def deleted(row: int) -> Acts:
        return (*go_to(f"A{row + 1}"), *menu("Edit", "Delete", "Rows"))

    return edit(
        f"Delete the row of {rows[place][0]} from the table, so that no empty row remains, and save the workbook.",
        name,
        rows,
        Sheet(tuple(row for index, row in enumerate(rows) if index != place)),
        deleted(place),
        deleted(other),
        (*go_to(f"A{place + 1}"), *press("shift+Right", 2), *press("Delete")),
    )


@registry.template()
def sort_table(draws: SeededDraws) -> Plan:
    """Sort the rows by item."""
    name, rows = table(draws)
    body = rows[1:]
    down = draws.chance(0.5)
    right = sorted(body, reverse=down)
    if list(body) == right or body[0] == right[0]:
        raise NoInstance

    def ordered(corner: str, reverse: bool) -> Acts:
        button = click("button", f"Sort {'Descending' if reverse else 'Ascending'}")
        return (*go_to(corner), *press("ctrl+shift+End"), button)

    goal = (
        f"Sort the rows of the table by item from {'Z to A' if down else 'A to Z'}. The header stays on top, and each "
        "item keeps its price and count. Save the workbook."
    )
    wrong = ordered("A2", not down), ordered("A3", down)
    return edit(goal, name, rows, Sheet((HEADER, *right)), ordered("A2", down), *wrong)


@registry.template()
def export_csv(draws: SeededDraws) -> Plan:
    """Export a table as CSV."""
    name, rows = table(draws)
    to, other = (f"{place.lower()}.csv" for place in draws.sample(PLACES, 2))
    content = "\n".join(",".join(map(str, row)) for row in rows)
    files = {name: write_workbook(rows)}
    dialog = menu("Data", "Export Data", "Export as CSV File...")
    return Plan(
        f"Export the open table as a CSV file named {to} into the home folder. Leave the workbook as it is.",
        (f"gnumeric {name}",),
        files,
        Expected({**files, to: Text(content)}),
        (*dialog, *save_as(to)),
        (
            (*dialog, *press("ctrl+a"), write(to)),
            (*dialog, *save_as(other)),
            (*set_cell("B2", 1), *dialog, *save_as(to)),
        ),
    )


@registry.template()
def find_price(draws: SeededDraws) -> Plan:
    """Look up a number."""
    name, rows = table(draws, 8, 12)
    files = {name: write_workbook(rows)}
    place = draws.integer(1, len(rows) - 1)
    item, price, count = rows[place]
    if price == count:
        raise NoInstance
    looked = go_to(f"B{place + 1}")
    return Plan(
        f"What is the price of {item} in the open table? Answer with the number, and change nothing.",
        (f"gnumeric {name}",),
        files,
        Expected(files, answer=str(price)),
        (*looked, done(price)),
        ((*looked, done(count)), looked, (*set_cell("B2", 1000), SAVE, done(price))),
    )
