"""Tasks in the terminal."""

from .....draws import NoInstance, SeededDraws
from ..expected import Expected, Text
from ..template import Acts, DesktopRegistry, Plan, done, write
from .documents import FOLDERS, ITEMS, PLACES, document, note
from .files import home

registry = DesktopRegistry("terminal")
START = ("lxterminal",)


def run(*commands: str) -> Acts:
    """Run commands in the shell."""
    return tuple(write(f"{command}\n") for command in commands)


@registry.template()
def count_lines(draws: SeededDraws) -> Plan:
    """Count the lines of a file."""
    (name, other, *_), _, files = home(draws)
    count = draws.integer(30, 400)
    lines = note(draws, 12)
    files[name] = document([lines[place % 12] for place in range(count)])
    files[other] = document([lines[place % 12] for place in range(count - 1)])
    looked = run(f"wc -l {name}")
    return Plan(
        f"How many lines does the file {name} have? Answer with the number, and change nothing.",
        START,
        files,
        Expected(files, answer=str(count)),
        (*looked, done(count)),
        ((*run(f"wc -l {other}"), done(count - 1)), looked, (*run(f"rm {other}"), *looked, done(count))),
    )


@registry.template()
def sorted_copy(draws: SeededDraws) -> Plan:
    """Write the sorted lines of a file into another file."""
    (name, other, *_), _, files = home(draws)
    items = draws.sample(ITEMS, 8)
    files[name] = document(list(items))
    to = f"{draws.choice(PLACES).lower()}.txt"
    if list(items) == sorted(items):
        raise NoInstance
    return Plan(
        f"Write the lines of {name} in alphabetical order into a new file {to}. Keep {name} as it is.",
        START,
        files,
        Expected({**files, to: Text("\n".join(sorted(items)))}),
        run(f"sort {name} > {to}"),
        (
            (write(f"sort {name} > {to}"),),
            run(f"sort -r {name} > {to}"),
            run(f"sort {name} -o {name}", f"cp {name} {to}"),
            run(f"sort {other} > {to}"),
        ),
    )


@registry.template()
def find_word(draws: SeededDraws) -> Plan:
    """Find the file that contains a word."""
    names, (folder, _), files = home(draws)
    word, other = draws.sample(PLACES, 2)
    paths = [*names, f"{folder}/{names[0]}"]
    files |= {path: document([*note(draws, 4), f"Send the parcel to {other}"]) for path in paths}
    path, wrong = draws.sample(names[1:], 2)
    files[path] = document([*note(draws, 3), f"Send the parcel to {word}", *note(draws, 2)])
    looked = run(f"grep -r {word} .")
    return Plan(
        f"One file here contains the word {word}. Answer with the name of that file, and change nothing.",
        START,
        files,
        Expected(files, answer=path),
        (*looked, done(path)),
        ((*looked, done(wrong)), looked, (*run(f"mv {path} found.txt"), done(path))),
    )


@registry.template()
def nested_folder(draws: SeededDraws) -> Plan:
    """Create a file in a new folder of a new folder."""
    _, folders, files = home(draws)
    outer, inner, wrong = draws.sample([folder for folder in FOLDERS if folder not in folders], 3)
    word = draws.choice(PLACES)

    def made(inner: str) -> Acts:
        return run(f"mkdir -p {outer}/{inner}", f"echo {word} > {outer}/{inner}/place.txt")

    return Plan(
        f"Create a folder {outer} with a folder {inner} in it, and in that one a file place.txt whose only line is "
        f"{word}.",
        START,
        files,
        Expected({**files, f"{outer}/{inner}/place.txt": Text(word)}),
        made(inner),
        (made(inner)[:1], made(wrong), (*run(f"mkdir {wrong}"), *made(inner))),
    )


@registry.template()
def join_files(draws: SeededDraws) -> Plan:
    """Join two files into a third one."""
    (one, other, *_), _, files = home(draws)
    to = f"{draws.choice(PLACES).lower()}.txt"
    return Plan(
        f"Write the content of {one}, followed by the content of {other}, into a new file {to}. Keep both files.",
        START,
        files,
        Expected({**files, to: files[one] + files[other]}),
        run(f"cat {one} {other} > {to}"),
        (run(f"cat {other} {one} > {to}"), run(f"cat {one} > {to}"), run(f"cat {one} {other} > {to}", f"rm {other}")),
    )
