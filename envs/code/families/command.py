"""Repair a command line that fails: a path, an option, a name with a space, a variable."""

from ....sandbox import Tree
from ..task import Case, CodeTask
from .words import Words

RIGHT = """
#!/bin/sh
# Prints the largest amount of <first>, for <third>.
set -eu
source="data/<first> <second>.txt"
largest=$(cut -d' ' -f2 "$source" | sort -n | tail -n 1)
echo "<third> $largest"
"""
SLIPS = {
    "wrong path": ('source="data/<first>', 'source="<third>/<first>'),
    "no such option": ("sort -n", "sort --numerical"),
    "name with a space": ('-f2 "$source"', "-f2 $source"),
    "no such variable": ('echo "<third> $largest"', 'echo "<third> $larger"'),
    "wrong column": ("-f2", "-f"),
}
WRONG = {
    "sorted as text": ("sort -n", "sort"),
    "the smallest": ("tail -n 1", "head -n 1"),
    "the other column": ("-f2", "-f1"),
    "failures hidden": ("largest=$(cut -d' ' -f2 \"$source\" | sort -n | tail -n 1)", "largest=$(true)"),
}


def command(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(SLIPS))
    data = f"data/{words.first} {words.second}.txt"

    def source(old: str = "", new: str = "") -> bytes:
        return words.text(RIGHT.replace(old, new) if old else RIGHT).encode()

    def table(*more: int) -> tuple[bytes, int]:
        return listed([words.integer(50, 99), words.integer(5, 9), *more])

    def listed(some: list[int]) -> tuple[bytes, int]:
        amounts = words.shuffled(some)
        return "".join(f"day{day} {amount}\n" for day, amount in enumerate(amounts, 1)).encode(), max(amounts)

    # Amounts of as many digits as the largest, and a largest of two, three and four digits.
    shown, largest = table(words.integer(100, 499), words.integer(100, 499))
    hidden = [
        table(words.integer(100, 499), words.integer(100, 499)),
        table(words.integer(1000, 4999), words.integer(1000, 4999), words.integer(100, 499)),
        table(words.integer(10, 49)),
        table(*(words.integer(100, 999) for _ in range(words.integer(12, 20))), -words.integer(1000, 4999)),
        listed([-words.integer(5, 9), -words.integer(20, 99), -words.integer(100, 499)]),
        listed([words.integer(11, 99)]),
    ]
    right = source()
    mutations = {what: {"run.sh": source(*slip)} for what, slip in WRONG.items()}
    mutations["the answer by heart"] = {"run.sh": f'#!/bin/sh\necho "{words.third} {largest}"\n'.encode()}
    return CodeTask(
        name=f"command-{kind.replace(' ', '-')}",
        instruction=f"`sh run.sh` must print {words.third} and the largest amount of the second column of the file in "
        "data/, whatever whole numbers that file holds; as it is, the command fails. Repair it.",
        workspace=Tree.of(
            {
                "run.sh": source(*SLIPS[kind]),
                data: shown,
                f"notes/{words.third}.md": f"{words.first} comes before {words.second}.\n".encode(),
            }
        ),
        cases=(
            Case(("sh", "run.sh"), f"{words.third} {largest}\n".encode(), files={data: shown}),
            *(
                Case(("sh", "run.sh"), f"{words.third} {most}\n".encode(), files={data: content})
                for content, most in hidden
            ),
        ),
        solution={"run.sh": right},
        mutations=mutations,
    )
