"""Refuse cases that code can pass without solving the task.

The code under test controls the process that it runs in: it can end with any exit code, print any text, and return an
object that equals everything. So a case proves something only if the host compares an answer, and if that answer

* comes from the code under test alone: no script of the task decides it in the same process;
* depends on the input: the cases of a program, or of a function, expect at least two different answers, or a long one;
* cannot be read or guessed: the words of all answers that the agent cannot read add up to ``MIN_BITS``.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from .questions import Files, Question, place_fault

WORD = re.compile(r"\d+|[^\W\d_]+")
_COMMON = """
true false yes no none null ok pass passed passing fail failed failing failure success successful succeeded error errors
right wrong correct incorrect good bad valid invalid done all tests test checks check cases hold match equal same
different works rc exit code status
"""
COMMON = frozenset(_COMMON.split())
"""Words that any program may print, in lowercase: the agent need not read them to know them."""
GUESS = re.compile(r"true|false|yes|no|\d", re.IGNORECASE)
"""A line that is an answer only next to a different one."""
FORGED_VERDICT = re.compile(
    rb"^[^\w\n]{0,20}(\d+ passed|all tests pass|pass(ed)?|ok)\b[^\n]*$", re.IGNORECASE | re.MULTILINE
)
"""Output that imitates a verdict."""
MIN_BITS = 8.0
"""Code that guesses passes all cases of a task at most once in 256 times."""
MIN_CONSTANT_BITS = 20.0
"""Of an answer that is the same for every input."""
BITS_PER_DIGIT = math.log2(10)
BITS_PER_WORD = 6.0
"""Of a word that the agent cannot read. Most such words are of the few that programs print."""
BITS_PER_CHOICE = 1.0
"""Of an answer whose words the agent can read: code must still choose one."""
MIN_QUOTED_WORDS = 3
"""Length of an answer that a file of the workspace does not hold by chance."""


def fault(
    questions: Sequence[Question], workspace: Files, solution: Files, protected: Sequence[str], instruction: str
) -> str:
    """Return why the cases of a task together prove nothing, and what to do; empty if they compare answers.

    ``solution`` are the files that the solution adds or changes.
    """
    for question in questions:
        if message := place_fault(question, workspace, solution, protected):
            return message
    words = {path: _words(content.decode(errors="replace")) for path, content in workspace.items()}
    said = _words(instruction)
    return _answers_fault([(question, COMMON.union(said, _readable(question, words))) for question in questions])


def _readable(question: Question, files: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the words of the files that the code of a case uses, and of its answer if a file holds it as a whole.

    The code uses the file that runs, and each file whose name occurs in the input or in a file that the code uses.
    """
    used = {path for path in question.places if path in files}
    named = set(_words(question.given)).union(*(files[path] for path in used))
    while more := {path for path in files.keys() - used if (stem := _words(_stem(path))) and named.issuperset(stem)}:
        used |= more
        named.update(*(files[path] for path in more))
    answer = _words(question.expected)
    is_held = any(words == answer or _quotes(words, answer) for words in files.values())
    return frozenset(answer if is_held else ()).union(*(files[path] for path in used))


def _quotes(words: Sequence[str], answer: Sequence[str]) -> bool:
    """Return whether a file holds an answer as a part, and not by chance."""
    return len(answer) >= MIN_QUOTED_WORDS and f" {' '.join(answer)} " in f" {' '.join(words)} "


def can_be_guessed(stdout: bytes) -> bool:
    """Return whether each line of an expected output is one of the few that many programs print."""
    lines = (line.strip() for line in stdout.decode(errors="replace").splitlines())
    return all(GUESS.fullmatch(line) for line in lines if line)


def _answers_fault(questions: Sequence[tuple[Question, frozenset[str]]]) -> str:
    answers, bits = defaultdict[str, dict[tuple[str, ...], float]](dict), 0.0
    for question, known in questions:
        answer, how_many = _answer(question, known)
        answers[question.name][answer or (question.outcome,)] = how_many
        bits += how_many
    for name, found in answers.items():
        if len(found) < 2 and max(found.values()) < MIN_CONSTANT_BITS:
            return (
                f"every case of `{name}` expects the same answer, apart from words of the input, so a constant passes; "
                "add a case with another input and another answer"
            )
    if questions and bits < MIN_BITS:
        return (
            "the answers of the cases can be guessed: the words that the agent can read neither in the files of the "
            f"program nor in the input have {bits:.1f} bits, of at least {MIN_BITS:.0f} (a digit counts "
            f"{BITS_PER_DIGIT:.1f}, a word {BITS_PER_WORD:.0f}, True or yes {BITS_PER_CHOICE:.0f}); add cases with "
            "longer answers, or more cases"
        )
    return ""


def _answer(question: Question, known: frozenset[str]) -> tuple[tuple[str, ...], float]:
    """Return the words of an answer that code cannot take from elsewhere, and their bits."""
    said, given = _words(question.expected), _words(question.given)
    readable = known.union(given)
    new = [word for word in said if word not in readable]
    if new:
        return tuple(new), sum(BITS_PER_DIGIT * len(word) if word.isdigit() else BITS_PER_WORD for word in {*new})
    selected, offered = ([word for word in words if word not in known] for words in (said, given))
    if selected and selected != offered:
        return tuple(selected), max(BITS_PER_CHOICE, math.log2(len({*offered}) or 1)) * len(selected)
    input_words = {*given}
    chosen = [word for word in said if word not in input_words]
    return tuple(chosen), BITS_PER_CHOICE if chosen else 0.0


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())
