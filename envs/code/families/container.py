"""Implement a small container with a given protocol; the wrong solutions follow neighboring protocols."""

from collections.abc import Callable

from ..task import CodeTask
from .words import NOUNS, Words, program_task

PROGRAM = '''
"""<First> keeps <second> for <third>: commands come on standard input, one a line."""

import sys


class <Second>:
    """At most <size> words. <said>"""

<body>


kept = <Second>()
for line in sys.stdin:
    command, *rest = line.split()
    if command == "add":
        kept.add(rest[0])
    elif command == "take":
        print("<third>", kept.take())
'''
STUB = """
    def add(self, word):
        raise NotImplementedError

    def take(self):
        raise NotImplementedError
"""
BODY = """
    def __init__(self):
        self.words = []

    def add(self, word):
        <add>

    def take(self):
        return self.words.pop(<end>) if self.words else "nothing"
"""
ADD = {
    "the oldest goes": "self.words = [*self.words, word][-<size>:]",
    "the new one is refused": "self.words = [*self.words, word][:<size>]",
    "a word twice counts once": "self.words = self.words if word in self.words else [*self.words, word][-<size>:]",
    "no limit": "self.words.append(word)",
}
SAID = {
    "the oldest goes": "If it is full, the word that was added first is dropped.",
    "the new one is refused": "If it is full, the new word is dropped.",
    "a word twice counts once": "A word that it already holds is not added again and keeps its place. If it is full, "
    "the word that was added first is dropped.",
}
ENDS = {"-1": "the word that was added last", "0": "the word that was added first"}


def container(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind, end, size = words.choice(tuple(SAID)), words.choice(tuple(ENDS)), words.integer(3, 5)
    said = f"{SAID[kind]} `take` removes and returns {ENDS[end]}, or returns `nothing` if it is empty."

    def source(body: str) -> str:
        return words.text(PROGRAM, body=body.strip("\n"), size=size, said=said)

    def made(how: str, which: str) -> str:
        return source(BODY.replace("<add>", ADD[how]).replace("<end>", which))

    def commands() -> str:
        # Taken from while empty, filled beyond its limit, a word twice while there is room, and emptied beyond its end.
        some = words.sample(NOUNS, size + 3)
        lines = ["take"] + [f"add {word}" for word in (some[0], some[1], some[1], *some[2:])] + ["take"] * 2
        lines += [f"add {words.choice(some)}" for _ in range(2)] + ["take"] * (size + 1)
        lines += [f"add {word}" for word in (some[1], some[2], some[1])] + ["take"] * 4
        return "".join(f"{line}\n" for line in lines)

    path = f"{words.first}.py"
    other = next(each for each in ENDS if each != end)
    wrong = {how: made(how, end) for how in ADD if how != kind}
    return program_task(
        name=f"container-{kind.replace(' ', '-')}",
        instruction=f"Write the class {words.second.title()} of {path}; its docstring specifies it. The rest of the "
        "program is right: it reads commands and prints their results.",
        path=path,
        given=source(STUB),
        right=made(kind, end),
        wrong={**wrong, "from the other end": made(kind, other)},
        inputs=[commands() for _ in range(3)],
        reference=_reference(kind, int(end), size, words.third),
    )


def _reference(kind: str, end: int, size: int, third: str) -> Callable[[str], str]:
    def answer(given: str) -> str:
        kept, out = list[str](), ""
        for command, *rest in map(str.split, given.splitlines()):
            if command == "take":
                out += f"{third} {kept.pop(end) if kept else 'nothing'}\n"
            elif kind == "a word twice counts once" and rest[0] in kept:
                continue
            elif len(kept) < size:
                kept.append(rest[0])
            elif kind != "the new one is refused":
                kept = [*kept[1:], rest[0]]
        return out

    return answer
