"""Tasks in the image viewer."""

from .....draws import SeededDraws
from ..expected import Expected
from ..template import Acts, DesktopRegistry, Plan, click, done, press, save_as
from .documents import COLORS, PLACES, SHAPES, any_picture, draw_picture

registry = DesktopRegistry("viewer")
FORWARD = click("button", "Forward")
Files = dict[str, bytes]
Size = tuple[int, int]


def sized(draws: SeededDraws, count: int = 4) -> tuple[list[str], list[Size], Files]:
    """Draw pictures of different sizes: their names in alphabetical order, their sizes, and their files."""
    names = sorted(f"{place.lower()}.png" for place in draws.sample(PLACES, count))
    widths, heights = (draws.sample(range(80, 301, 20), count) for _ in "xy")
    sizes = list(zip(widths, heights, strict=True))
    return names, sizes, {name: any_picture(draws, *size) for name, size in zip(names, sizes, strict=True)}


def start(names: list[str]) -> tuple[str, ...]:
    """Return the command that shows the first picture of the home folder."""
    return (f"ristretto {names[0]}",)


def go_to(index: int) -> Acts:
    """Show a picture by its place in the folder, from 0, from the first one on."""
    return (FORWARD,) * index


DELETE = (click("button", "Delete"), click("button", "OK"))


def search(goal: str, files: Files, name: str, other: str) -> Plan:
    """Return a task that requests the name of a picture; ``other`` is a wrong answer."""
    places = {picture: go_to(index) for index, picture in enumerate(sorted(files))}
    return Plan(
        f"{goal} Answer with the name of the file, and change nothing.",
        start(sorted(files)),
        files,
        Expected(files, answer=name),
        (*places[name], done(name)),
        ((*places[other], done(other)), places[name], (*places[name], *DELETE, done(name))),
    )


@registry.template()
def find_size(draws: SeededDraws) -> Plan:
    """Find the picture of a size."""
    names, sizes, files = sized(draws)
    place, other = draws.sample(range(len(names)), 2)
    width, height = sizes[place]
    goal = f"Which of the pictures in this folder is {width} pixels wide and {height} pixels high?"
    return search(goal, files, names[place], names[other])


@registry.template()
def delete_size(draws: SeededDraws) -> Plan:
    """Delete the picture of a size."""
    names, sizes, files = sized(draws)
    place, other = draws.sample(range(len(names)), 2)
    width, height = sizes[place]
    return Plan(
        f"Delete the picture that is {width} pixels wide and {height} pixels high. Keep the other pictures.",
        start(names),
        files,
        Expected({name: content for name, content in files.items() if name != names[place]}),
        (*go_to(place), *DELETE),
        ((*go_to(place), *DELETE[:1]), (*go_to(other), *DELETE), (*go_to(place), *DELETE, *DELETE)),
    )


@registry.template()
def save_copy(draws: SeededDraws) -> Plan:
    """Save the shown picture under another name, too."""
    names, _, files = sized(draws, 3)
    place, other = draws.sample(range(len(names)), 2)
    copy, wrong = (f"{place.lower()}-copy.png" for place in draws.sample(PLACES, 2))
    dialog = (click("button", "Save copy..."),)
    return Plan(
        f"Save a copy of {names[place]} under the name {copy} in the same folder. Keep all other pictures.",
        start(names),
        files,
        Expected({**files, copy: files[names[place]]}),
        (*go_to(place), *dialog, *save_as(copy)),
        (
            (*go_to(place), *dialog, *press("ctrl+a")),
            (*go_to(other), *dialog, *save_as(copy)),
            (*go_to(place), *dialog, *save_as(wrong)),
        ),
    )


@registry.template(visual=True)
def find_shape(draws: SeededDraws) -> Plan:
    """Find the picture that shows a shape."""
    names = sorted(f"{place.lower()}.png" for place in draws.sample(PLACES, 4))
    kinds = [(shape, color) for shape in SHAPES for color in COLORS]
    shown = draws.sample(kinds, len(names))
    files = {name: draw_picture(*kind, 480, 360) for name, kind in zip(names, shown, strict=True)}
    place, other = draws.sample(range(len(names)), 2)
    shape, color = shown[place]
    goal = f"Which of the pictures in this folder shows a {color} {shape}?"
    return search(goal, files, names[place], names[other])
