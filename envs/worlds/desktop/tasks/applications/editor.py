"""Tasks in the text editor."""

from .....draws import SeededDraws
from ..expected import Expected, Text
from ..template import SAVE, Acts, DesktopRegistry, Plan, click, menu, press, save_as, write
from .documents import ITEMS, PLACES, STEMS, document, note

registry = DesktopRegistry("editor")
VIEW = "org.xfce.mousepad.preferences.view"
WINDOW = "org.xfce.mousepad.preferences.window"
SETTINGS = {
    "the line numbers": (("View", "Line Numbers"), VIEW, "show-line-numbers"),
    "the status bar": (("View", "Statusbar"), WINDOW, "statusbar-visible"),
    "the toolbar": (("View", "Toolbar"), WINDOW, "toolbar-visible"),
    "word wrap": (("Document", "Word Wrap"), VIEW, "word-wrap"),
    "automatic indentation": (("Document", "Auto Indent"), VIEW, "auto-indent"),
}
"""A setting by the phrase of the goal: its menu path, its schema and its key."""


def drawn_note(draws: SeededDraws, count: int = 5) -> tuple[str, list[str], dict[str, bytes]]:
    """Draw a document: its name, its lines, and the files of the home folder, one more document among them."""
    stem, other = draws.sample(STEMS, 2)
    lines = note(draws, count)
    return f"{stem}.txt", lines, {f"{stem}.txt": document(lines), f"{other}.txt": document(note(draws, 3))}


def edit(goal: str, name: str, files: dict[str, bytes], lines: list[str], change: Acts, *wrong: Acts) -> Plan:
    """Return a plan that changes the lines of the open document and saves it. ``wrong`` are other changes."""
    return Plan(
        goal,
        (f"mousepad {name}",),
        files,
        Expected({**files, name: Text("\n".join(lines))}),
        (*change, SAVE),
        (change, *((*other, SAVE) for other in wrong)),
    )


def at_line(index: int) -> Acts:
    """Move the cursor to the start of a line, from 0."""
    return (*press("ctrl+Home"), *press("Down", index))


CUT_LINE = (*press("shift+Down"), *press("ctrl+x"))


@registry.template()
def append_line(draws: SeededDraws) -> Plan:
    """Add a line at the end."""
    name, (added, *lines), files = drawn_note(draws, 6)
    files[name] = document(lines)
    at_end, line = press("ctrl+End"), write(f"{added}\n")
    goal = f'The editor shows {name}. Add the line "{added}" at the end of the document and save it.'
    wrong = (*press("ctrl+Home"), line), (*at_end, line, line)
    return edit(goal, name, files, [*lines, added], (*at_end, line), *wrong)


@registry.template()
def insert_line(draws: SeededDraws) -> Plan:
    """Insert a line above another one."""
    name, (added, *lines), files = drawn_note(draws, 6)
    files[name] = document(lines)
    place, line = draws.integer(1, len(lines) - 2), write(f"{added}\n")
    goal = (
        f'In the open document, insert the line "{added}" directly above the line "{lines[place]}". Save the document.'
    )
    wrong = (*at_line(place + 1), line), (*at_line(place), line, line)
    return edit(goal, name, files, [*lines[:place], added, *lines[place:]], (*at_line(place), line), *wrong)


@registry.template()
def delete_line(draws: SeededDraws) -> Plan:
    """Delete a line."""
    name, lines, files = drawn_note(draws)
    place, other = draws.sample(range(len(lines)), 2)
    left, cut = [line for line in lines if line != lines[place]], (*at_line(place), *CUT_LINE)
    goal = f'Delete the line "{lines[place]}" from {name}, which is open, and save the file.'
    wrong = (*at_line(other), *CUT_LINE), (*cut, *press("ctrl+Home"), *CUT_LINE)
    return edit(goal, name, files, left, cut, *wrong)


@registry.template()
def move_line_up(draws: SeededDraws) -> Plan:
    """Move a line to the top."""
    name, lines, files = drawn_note(draws)
    place, other = draws.sample(range(1, len(lines)), 2)

    def moved(index: int) -> Acts:
        return (*at_line(index), *CUT_LINE, *press("ctrl+Home"), *press("ctrl+v"))

    left = [line for line in lines if line != lines[place]]
    goal = f'Move the line "{lines[place]}" to the top of {name}, above all other lines, and save the document.'
    wrong = moved(other), (*at_line(place), *CUT_LINE)
    return edit(goal, name, files, [lines[place], *left], moved(place), *wrong)


@registry.template()
def replace_word(draws: SeededDraws) -> Plan:
    """Replace a word everywhere."""
    name, lines, files = drawn_note(draws, 4)
    old, new, other = draws.sample(PLACES, 3)
    lines = [f"{line} in {old if place < 3 else other}" for place, line in enumerate(lines)]
    files[name] = document(lines)
    opened = (*press("ctrl+r"), write(old), *press("Tab"), write(new))
    everywhere = (*opened, click("checkbox", "Replace all in:"), click("button", "Replace All"), *press("Escape"))
    once = (*opened, click("button", "Find"), click("button", "Replace"), *press("Escape"))
    goal = f"Replace the word {old} by {new} everywhere in the open document, then save it."
    wrong = once, (*everywhere, *press("ctrl+End"), write(new))
    return edit(goal, name, files, [line.replace(old, new) for line in lines], everywhere, *wrong)


@registry.template()
def save_copy(draws: SeededDraws) -> Plan:
    """Save a document under another name, too."""
    name, _, files = drawn_note(draws)
    copy, other = (f"{stem}-copy.txt" for stem in draws.sample(STEMS, 2))
    dialog = press("ctrl+shift+s")
    return Plan(
        f"Save the open document under the name {copy} in the same folder as well. Keep {name} as it is.",
        (f"mousepad {name}",),
        files,
        Expected({**files, copy: files[name]}),
        (*dialog, *save_as(copy)),
        (
            (*dialog, *press("ctrl+a"), write(copy)),
            (*dialog, *save_as(other)),
            (*dialog, *save_as(copy), write("x"), SAVE),
        ),
    )


@registry.template()
def new_document(draws: SeededDraws) -> Plan:
    """Write a list into a new document."""
    _, _, files = drawn_note(draws)
    things, name = draws.sample(ITEMS, 3), f"{draws.choice(PLACES).lower()}.txt"
    wrong = (things[0], things[2], things[1])

    def written(items: tuple[str, ...]) -> Acts:
        return (write("\n".join(items)), SAVE, *save_as(name))

    return Plan(
        f"Write a shopping list into the empty document: {', '.join(things)}, in this order, one item per line. "
        f"Save it as {name} in the home folder.",
        ("mousepad",),
        files,
        Expected({**files, name: Text("\n".join(things))}),
        written(things),
        ((write("\n".join(things)),), written(wrong), written(things[:2])),
    )


@registry.template()
def capital_title(draws: SeededDraws) -> Plan:
    """Write the first line in capital letters."""
    name, lines, files = drawn_note(draws)
    place = draws.integer(1, len(lines) - 1)
    first = (*at_line(0), *press("shift+End"), write(lines[0].upper()))
    other = (*at_line(place), *press("shift+End"), write(lines[place].upper()))
    goal = (
        f"Change the first line of {name} to capital letters and leave the other lines as they are. Save the document."
    )
    return edit(goal, name, files, [lines[0].upper(), *lines[1:]], first, other, (*first, *other))


@registry.template()
def change_setting(draws: SeededDraws) -> Plan:
    """Switch a setting of the editor on."""
    name, _, files = drawn_note(draws)
    (wanted, (path, schema, key)), (_, (wrong, _, _)) = draws.sample(tuple(SETTINGS.items()), 2)
    return Plan(
        f"Switch on {wanted} in the text editor. Do not change {name} or any other setting.",
        (f"mousepad {name}",),
        files,
        Expected(files, settings={schema: {key: "true"}}),
        menu(*path),
        (menu(*wrong), (*menu(*path), *menu(*wrong)), (*menu(*path), write("x"), SAVE)),
    )
