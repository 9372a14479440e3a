"""Tasks that need several applications, whose windows are open at the start."""

from .....draws import NoInstance, SeededDraws
from ...spreadsheet import write_workbook
from ..expected import Expected, Sheet, Text
from ..template import CLOSE_WINDOW, SAVE, Acts, DesktopRegistry, Plan, press, write
from .calculator import keys
from .documents import COLORS, PLACES, SHAPES, document, draw_picture, note
from .editor import drawn_note
from .files import home, renamed, sized_files
from .spreadsheet import go_to, set_cell, table, with_cell
from .terminal import run

registry = DesktopRegistry("several")
OTHER_WINDOW = press("alt+Tab")
COMMANDS = {
    "calculator": "galculator",
    "file manager": "pcmanfm .",
    "terminal": "lxterminal",
    "text editor": "mousepad",
}
"""Commands by the name that a goal gives an application."""


def added(line: object) -> Acts:
    """Add a line at the end of the document in the other window, and save it."""
    return (*OTHER_WINDOW, *press("ctrl+End"), write(f"{line}\n"), SAVE)


def note_plan(
    goal: str, commands: tuple[str, ...], files: dict[str, bytes], looked: Acts, right: object, wrong: object
) -> Plan:
    """Return a plan whose solution looks something up in the last window and adds it to ``answer.txt`` in the other."""
    lines = "Here is what I found:\n"
    return Plan(
        f"{goal} Add it as the last line of answer.txt, which is open in the editor, and save that file.",
        ("mousepad answer.txt", *commands),
        {**files, "answer.txt": lines.encode()},
        Expected({**files, "answer.txt": Text(f"{lines}{right}")}),
        (*looked, *added(right)),
        (
            (*looked, *added(right)[:-1]),
            (*looked, *added(wrong)),
            (*looked, *added(right), *press("ctrl+Home"), write("!"), SAVE),
        ),
    )


@registry.template("calculator", "editor")
def result_to_note(draws: SeededDraws) -> Plan:
    """Compute something and write the result down."""
    one, other = draws.integer(101, 999), draws.integer(12, 99)
    return note_plan(
        f"Compute {one} times {other} with the calculator.",
        ("galculator",),
        {},
        keys(f"{one}*{other}="),
        one * other,
        one + other,
    )


@registry.template("files", "editor")
def largest_to_note(draws: SeededDraws) -> Plan:
    """Write the name of the largest file down."""
    _, folder, files, ranked = sized_files(draws)
    return note_plan(
        f"Find the name of the largest file in the folder {folder}.",
        (f"pcmanfm {folder}",),
        files,
        press("ctrl+4"),
        ranked[0],
        ranked[1],
    )


@registry.template("spreadsheet", "editor")
def price_to_note(draws: SeededDraws) -> Plan:
    """Write a number of a table down."""
    name, rows = table(draws, 8, 12)
    place = draws.integer(1, len(rows) - 1)
    item, price, count = rows[place]
    if price == count:
        raise NoInstance
    return note_plan(
        f"Look up the price of {item} in the table.",
        (f"gnumeric {name}",),
        {name: write_workbook(rows)},
        go_to(f"B{place + 1}"),
        price,
        count,
    )


@registry.template("terminal", "editor")
def count_to_note(draws: SeededDraws) -> Plan:
    """Count files in the terminal and write the number down."""
    _, _, files = home(draws)
    count = draws.integer(11, 40)
    folder = f"{draws.choice(PLACES)}-{draws.integer(2001, 2025)}"
    files |= {f"{folder}/day-{day:02}.txt": b"quiet\n" for day in range(1, count + 1)}
    return note_plan(
        f"Count the files in the folder {folder} in the terminal.",
        ("lxterminal",),
        files,
        run(f"ls {folder} | wc -l"),
        count,
        count + 1,
    )


@registry.template("viewer", "editor")
def size_to_note(draws: SeededDraws) -> Plan:
    """Write the width of a picture down."""
    name = f"{draws.choice(PLACES).lower()}.png"
    width, height = (draws.integer(80, 300) for _ in "xy")
    if width == height:
        raise NoInstance
    picture = draw_picture(draws.choice(tuple(SHAPES)), draws.choice(tuple(COLORS)), width, height)
    return note_plan(
        f"Find out how many pixels wide the picture {name} is.",
        (f"ristretto {name}",),
        {name: picture},
        (),
        width,
        height,
    )


@registry.template("editor")
def copy_between(draws: SeededDraws) -> Plan:
    """Copy the first line of one document to the end of another one."""
    name, lines, files = drawn_note(draws)
    other = next(path for path in files if path != name)
    copied = (*OTHER_WINDOW, *press("ctrl+Home"), *press("shift+End"), *press("ctrl+c"))
    pasted = (*OTHER_WINDOW, *press("ctrl+End"), *press("ctrl+v"))
    kept = files[other].decode()
    return Plan(
        f"Two documents are open. Copy the first line of {name} to the end of {other}, as its last line, and save it.",
        (f"mousepad {name}", f"mousepad -o window {other}"),
        files,
        Expected({**files, other: Text(kept + lines[0])}),
        (*copied, *pasted, SAVE),
        (
            (*copied, *pasted),
            (*press("ctrl+Home"), *press("shift+End"), *press("ctrl+c"), *pasted, SAVE),
            (*copied, *pasted, SAVE, *OTHER_WINDOW, write("x"), SAVE),
        ),
    )


@registry.template("editor", "spreadsheet")
def note_to_table(draws: SeededDraws) -> Plan:
    """Enter a number from a document into a table."""
    name, rows = table(draws)
    place, other = draws.sample(range(1, len(rows)), 2)
    price = draws.integer(100, 199)
    files = {"message.txt": f"The price of {rows[place][0]} is {price} from now on.\n".encode()}
    files[name] = write_workbook(rows)
    right, wrong = (set_cell(f"B{row + 1}", price) for row in (place, other))
    return Plan(
        f"Read message.txt, enter the new price into the open table {name}, and save the workbook.",
        ("mousepad message.txt", f"gnumeric {name}"),
        files,
        Expected({**files, name: Sheet(with_cell(rows, place, 1, price))}),
        (*right, SAVE),
        (right, (*wrong, SAVE), (*right, SAVE, *OTHER_WINDOW, write("x"), SAVE)),
    )


@registry.template("files", "viewer", visual=True)
def name_by_shape(draws: SeededDraws) -> Plan:
    """Rename a picture after the shape that it shows."""
    names = [f"{place.lower()}.png" for place in draws.sample(PLACES, 3)]
    kinds = draws.sample(tuple(SHAPES), len(names))
    color = draws.choice(tuple(COLORS))
    files = {name: draw_picture(kind, color, 320, 320) for name, kind in zip(names, kinds, strict=True)}
    (name, other, _), (kind, *_) = names, kinds
    new = f"{kind}.png"
    left = {path: content for path, content in files.items() if path != name}
    return Plan(
        f"One of the pictures shows a {kind}. Rename that file to {new}.",
        ("pcmanfm .",),
        files,
        Expected({**left, new: files[name]}),
        renamed(name, new),
        (renamed(name, new)[:-1], renamed(other, new)),
    )


@registry.template("calculator", "files", "terminal", "editor")
def close_window(draws: SeededDraws) -> Plan:
    """Close one window of three."""
    names = draws.sample(tuple(COMMANDS), 3)
    last = draws.chance(0.5)
    shut = names[2 if last else 1]
    files = {"notes.txt": document(note(draws, 3))}
    commands = {name: COMMANDS[name] for name in names}
    left = sorted(command.split()[0] for name, command in commands.items() if name != shut)
    close = (*(() if last else OTHER_WINDOW), CLOSE_WINDOW)
    wrong = (*(OTHER_WINDOW if last else ()), CLOSE_WINDOW)
    return Plan(
        f"Close the window of the {shut}. Leave the other two windows open.",
        tuple(commands.values()),
        files,
        Expected(files, windows=tuple(left)),
        close,
        ((), wrong, (*close, CLOSE_WINDOW)),
    )
