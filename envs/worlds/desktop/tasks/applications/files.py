"""Tasks in the file manager."""

from .....draws import NoInstance, SeededDraws
from ..expected import Expected
from ..template import ENTER, FAIL, Acts, DesktopRegistry, Plan, done, double_click, pick, press, write
from .documents import FOLDERS, PLACES, STEMS, document, note

registry = DesktopRegistry("files")
START = ("pcmanfm .",)
Files = dict[str, bytes]


def home(draws: SeededDraws, count: int = 4) -> tuple[list[str], list[str], Files]:
    """Draw the home folder: the names of documents and folders in it, and all files. No folder is empty."""
    stems, folders = draws.sample(STEMS, count + 2), draws.sample(FOLDERS, 2)
    names = [f"{stem}.txt" for stem in stems[:count]]
    files = {name: document(note(draws, draws.integer(1, 5))) for name in names}
    for folder, stem in zip(folders, stems[count:], strict=True):
        files[f"{folder}/{stem}.txt"] = document(note(draws, 2))
    return names, list(folders), files


def moved(files: Files, path: str, to: str) -> Files:
    """Return the files after one was moved or renamed."""
    return {to if each == path else each: content for each, content in files.items()}


def renamed(old: str, new: str) -> Acts:
    """Rename a file of the shown folder."""
    return (pick(old), *press("F2"), *press("ctrl+a"), write(new), ENTER)


def put(name: str, folder: str, key: str = "ctrl+x") -> Acts:
    """Move or copy a file of the shown folder into a folder there."""
    return (pick(name), *press(key), double_click("listitem", folder), *press("ctrl+v"))


def deleted(name: str) -> Acts:
    """Delete a file of the shown folder."""
    return (pick(name), *press("Delete"), ENTER)


def sized_files(draws: SeededDraws) -> tuple[list[str], str, Files, list[str]]:
    """Draw a home folder with files of different sizes in one of its folders.

    Returns the names of documents, the folder, all files, and the same names in the folder, the largest one first.

    Raises:
        NoInstance: the largest size is not clear at a glance.
    """
    names, (folder, _), files = home(draws)
    sized = {name: document(note(draws, 3) * draws.integer(2, 40)) for name in names}
    ranked = sorted(sized, key=lambda name: len(sized[name]), reverse=True)
    if len(sized[ranked[0]]) < 1.2 * len(sized[ranked[1]]):
        raise NoInstance
    return names, folder, files | {f"{folder}/{name}": content for name, content in sized.items()}, ranked


@registry.template()
def rename_file(draws: SeededDraws) -> Plan:
    """Rename a file."""
    (old, other, *_), _, files = home(draws)
    new = f"{draws.choice(PLACES).lower()}.txt"
    return Plan(
        f"Rename the file {old} to {new}.",
        START,
        files,
        Expected(moved(files, old, new)),
        renamed(old, new),
        (renamed(old, new)[:-1], renamed(other, new), (*renamed(old, new), *renamed(other, f"old-{other}"))),
    )


@registry.template()
def move_file(draws: SeededDraws) -> Plan:
    """Move a file into a folder."""
    (name, other, *_), (folder, elsewhere), files = home(draws)
    back = press("alt+Up")
    return Plan(
        f"Move the file {name} into the folder {folder}.",
        START,
        files,
        Expected(moved(files, name, f"{folder}/{name}")),
        put(name, folder),
        (
            put(name, folder)[:-1],
            put(name, elsewhere),
            put(name, folder, "ctrl+c"),
            (*put(name, folder), *back, *put(other, folder)),
        ),
    )


@registry.template()
def copy_file(draws: SeededDraws) -> Plan:
    """Copy a file into a folder."""
    (name, other, *_), (folder, _), files = home(draws)
    copy = put(name, folder, "ctrl+c")
    return Plan(
        f"Put a copy of {name} into the folder {folder}. The original stays where it is.",
        START,
        files,
        Expected({**files, f"{folder}/{name}": files[name]}),
        copy,
        (copy[:-1], put(name, folder), put(other, folder, "ctrl+c")),
    )


@registry.template()
def delete_file(draws: SeededDraws) -> Plan:
    """Delete a file."""
    (name, other, *_), _, files = home(draws)
    return Plan(
        f"Delete the file {name}.",
        START,
        files,
        Expected({path: content for path, content in files.items() if path != name}),
        deleted(name),
        (deleted(name)[:-1], deleted(other), (*deleted(name), *deleted(other))),
    )


@registry.template()
def delete_kind(draws: SeededDraws) -> Plan:
    """Delete every file with an ending."""
    (name, *_), _, files = home(draws)
    ending = draws.choice(("tmp", "bak", "log", "old"))
    stems = draws.sample(PLACES, draws.integer(2, 3))
    doomed = [f"{stem.lower()}.{ending}" for stem in stems]
    steps = [deleted(each) for each in doomed]
    every = tuple(act for step in steps for act in step)
    return Plan(
        f"Delete all files in the home folder whose names end in .{ending}. Keep everything else.",
        START,
        {**files, **{each: document(note(draws, 1)) for each in doomed}},
        Expected(files),
        every,
        (every[: -len(steps[-1])], (*every, *deleted(name))),
    )


@registry.template()
def folder_for_file(draws: SeededDraws) -> Plan:
    """Create a folder and move a file into it."""
    (name, other, *_), folders, files = home(draws)
    new, wrong = draws.sample([folder for folder in FOLDERS if folder not in folders], 2)

    def created(folder: str) -> Acts:
        return (*press("ctrl+shift+n"), write(folder), ENTER, *press("F5"))

    return Plan(
        f"Create a folder named {new} in the home folder and move {name} into it.",
        START,
        files,
        Expected(moved(files, name, f"{new}/{name}")),
        (*created(new), *put(name, new)),
        (
            created(new),
            (*created(wrong), *put(name, wrong)),
            (*created(new), *put(other, new)),
            (*created(wrong), *created(new), *put(name, new)),
        ),
    )


@registry.template()
def largest_file(draws: SeededDraws) -> Plan:
    """Find the largest file of a folder."""
    names, folder, files, ranked = sized_files(draws)
    looked = (double_click("listitem", folder), *press("ctrl+4"))
    return Plan(
        f"Which file in the folder {folder} is the largest? Answer with its name, and change nothing.",
        START,
        files,
        Expected(files, answer=ranked[0]),
        (*looked, done(ranked[0])),
        ((*looked, done(ranked[1])), looked, (*deleted(names[0]), done(ranked[0]))),
    )


@registry.template()
def swap_names(draws: SeededDraws) -> Plan:
    """Swap the names of two files."""
    (one, other, *_), _, files = home(draws)
    if files[one] == files[other]:
        raise NoInstance
    first, last = renamed(one, "swap.txt"), renamed("swap.txt", other)
    return Plan(
        f"The files {one} and {other} have each other's names. Swap the names.",
        START,
        files,
        Expected({**files, one: files[other], other: files[one]}),
        (*first, *renamed(other, one), *last),
        ((*first, *renamed(other, one)), first),
    )


@registry.template()
def missing_file(draws: SeededDraws) -> Plan:
    """Notice that a task cannot be done."""
    names, (folder, _), files = home(draws)
    missing = names.pop()
    files = {path: content for path, content in files.items() if path != missing}
    looked = (double_click("listitem", folder), *press("alt+Up"))
    return Plan(
        f"Delete the file {missing}. If there is no such file here or in the folders, change nothing and give up.",
        START,
        files,
        Expected(files, feasible=False),
        (*looked, FAIL),
        (looked, (*deleted(names[0]), FAIL), deleted(names[0])),
    )
