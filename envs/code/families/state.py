"""Repair state that is carried from one group of lines to the next, or lost at the end."""

from ..task import CodeTask
from .words import Words, program_task

PROGRAM = '''
"""Sums of <first> by section: a line that ends in a colon opens one, numbers follow. <second> and <third> read it."""

import sys


<sections>


def main():
    for name, total in sections(sys.stdin.read().split()):
        print("<second>", name, total)


main()
'''
RIGHT = """
def sections(words):
    found = []
    for word in words:
        if word.endswith(":"):
            found.append([word[:-1], 0])
        else:
            found[-1][1] += int(word)
    return found
"""
WRONG = {
    "never set back": """
total = 0


def sections(words):
    global total
    found = []
    for word in words:
        if word.endswith(":"):
            found.append([word[:-1], total])
        else:
            total += int(word)
            found[-1][1] = total
    return found
""",
    "the last one lost": """
def sections(words):
    found, name, total = [], None, 0
    for word in words:
        if word.endswith(":"):
            if name is not None:
                found.append([name, total])
            name, total = word[:-1], 0
        else:
            total += int(word)
    return found
""",
    "one list for all": """
def sections(words, amounts=[]):
    found = []
    for word in words:
        if word.endswith(":"):
            found.append([word[:-1], amounts])
        else:
            amounts.append(int(word))
    return [[name, sum(kept)] for name, kept in found]
""",
    "the first number dropped": """
def sections(words):
    found, fresh = [], False
    for word in words:
        if word.endswith(":"):
            found.append([word[:-1], 0])
            fresh = True
        elif fresh:
            fresh = False
        else:
            found[-1][1] += int(word)
    return found
""",
    "same names put together": """
def sections(words):
    found = {}
    for word in words:
        if word.endswith(":"):
            name = word[:-1]
            found.setdefault(name, 0)
        else:
            found[name] += int(word)
    return list(found.items())
""",
}


def state(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind, path = words.choice(tuple(WRONG)), f"{words.first}.py"

    def source(sections: str) -> str:
        return words.text(PROGRAM, sections=sections.strip())

    def report(count: int) -> str:
        names = [words.second, *(words.choice(("north", "south", "east", "west")) for _ in range(count)), words.second]
        sections = [words.shuffled(amounts()) for _ in names]
        sections[words.integer(1, count)] = ()
        lines = [line for name, some in zip(names, sections, strict=True) for line in (f"{name}:", *map(str, some))]
        return "".join(f"{line}\n" for line in lines)

    def amounts() -> list[int]:
        return [-words.integer(1, 90), *(words.integer(1, 90) for _ in range(words.integer(1, 3)))]

    def reference(given: str) -> str:
        found = list[tuple[str, int]]()
        for word in given.split():
            if word.endswith(":"):
                found.append((word[:-1], 0))
            else:
                found[-1] = (found[-1][0], found[-1][1] + int(word))
        return "".join(f"{words.second} {name} {total}\n" for name, total in found)

    return program_task(
        name=f"state-{kind.replace(' ', '-')}",
        instruction=f"{path} reads sections from its standard input: a line that ends in a colon opens a section, "
        "which holds the whole numbers, some negative, up to the next section; it may hold none. For every section, in "
        f"order, it must print {words.second}, the name and the sum of the section's numbers. Two sections with the "
        "same name stay separate. The program prints wrong sums or loses lines. Repair it.",
        path=path,
        given=source(WRONG[kind]),
        right=source(RIGHT),
        wrong={what: source(sections) for what, sections in WRONG.items()},
        inputs=[report(count) for count in (2, 3, 5, 4)],
        reference=reference,
    )
