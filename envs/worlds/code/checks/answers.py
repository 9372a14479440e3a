"""Refuse cases that code can pass without solving the task.

The code under test controls the process that it runs in: it can end with any exit code, print any text, and return an
object that equals everything. So a case proves something only if the host compares an answer, and if that answer

* comes from the code under test alone: no script of the task decides it in the same process (``deciding_scripts``);
* depends on the input: the cases of a program, or of a function, expect at least two different answers, or a long one;
* cannot be read or guessed: the words of all answers that the agent cannot read add up to ``MIN_BITS``, without the
  answers that a file or the input itself holds (``readable_answers``).

One call that returns a number of two digits or more is enough: the agent knows neither arguments nor result.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .deciding_scripts import decision
from .questions import INSTEAD, Files, Question, is_script, place_fault
from .readable_answers import at_one_place, gathered, holders, positions
from .readable_answers import words as _words

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
FILE_NAME = re.compile(r"(?<![\w-])[\w-]++(?:\.[\w-]++)+")
"""The name of a file, with a suffix; a long word costs linear time."""
MIN_BITS = 8.0
"""Code that guesses passes all cases of a task at most once in 256 times."""
MIN_CONSTANT_BITS = 20.0
"""Of an answer that is the same for every input."""
BITS_PER_DIGIT = math.log2(10)
BITS_PER_WORD = 6.0
"""Of a word that the agent cannot read. Most such words are of the few that programs print."""
BITS_PER_INPUT_WORD = 2.0
"""Of a word of the input, at least: code must select it, or write it in another way."""
BITS_PER_CHOICE = 1.0
"""Of an answer whose words the agent can read in the program, such as True: code must still choose."""
MIN_QUOTED_WORDS = 3
"""Length of an answer that a file of the workspace does not hold by chance."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The part of an expected answer that code cannot take from elsewhere."""

    text: tuple[str, ...]
    new: frozenset[str]
    """Words that the agent can read neither in the files of the program nor in the input."""
    bits: float
    """Bits of the answer without new words."""
    is_number: bool = False
    """Whether the answer is a number of several digits that a call with arguments returned."""
    copied: tuple[str, ...] = ()
    """The words of the input that the answer selects."""


Cases = Sequence[tuple[Question, Answer]]


def fault(
    questions: Sequence[Question], workspace: Files, solution: Files, protected: Sequence[str], instruction: str
) -> str:
    """Return why the cases of a task together prove nothing, and what to do; empty if they compare answers.

    ``solution`` are the files that the solution adds or changes.
    """
    for question in questions:
        if message := place_fault(question, workspace, solution, protected):
            return message
    texts = {path: _spaced(content.decode(errors="replace")) for path, content in workspace.items()}
    data = _data(questions, workspace, solution)
    offered = " ".join(texts.pop(path) for path in sorted(data))
    cases = [(question, _answer(question, texts, offered)) for question in questions]
    if message := _answers_fault(cases):
        return message
    for question in questions:
        if not question.is_call and (script := decision(question.places, workspace, solution)):
            return (
                f"a case runs `{question.name}`, and {script} decides on a result of the code under test, an object of "
                "which answers a comparison or a test of truth as it likes; let the program print the result, and the "
                f"host compare it: {INSTEAD}"
            )
    return _readable_fault(cases, {f"`workspace/{path}`": text for path, text in texts.items()}, instruction)


def _data(questions: Sequence[Question], workspace: Files, solution: Files) -> set[str]:
    """Return the files that the solution, a case or its program names: they are data, and no tables of answers."""
    programs = {path: workspace[path] for each in questions for path in each.places if path in workspace}
    texts = [content.decode(errors="replace") for content in (programs | {**solution}).values()]
    named = {name for text in (*texts, *(each.given for each in questions)) for name in FILE_NAME.findall(text)}
    return {
        path
        for path, content in workspace.items()
        if path.rpartition("/")[2] in named and path not in programs and not is_script(path, content)
    }


def _readable_fault(cases: Cases, files: Mapping[str, str], instruction: str) -> str:
    """Return the fault of the cases without those whose answers a file or their own input holds."""
    found = {name: positions(text.split()) for name, text in files.items()}
    found["the instruction"] = positions(_spaced(instruction).split())
    holds = holders([(_spaced(each.given).split(), _spaced(each.expected).split()) for each, _ in cases], found)
    for numbers in _by_program(cases).values():
        news = [number for number in numbers if cases[number][1].new]
        bits = _bits(frozenset[str]().union(*(cases[number][1].new for number in news)))
        if name := gathered([_spaced(cases[number][0].expected).split() for number in news], bits, found):
            holds = [name if number in news else each for number, each in enumerate(holds)]
    left = [case for case, name in zip(cases, holds, strict=True) if not name]
    names = [name for name in holds if name]
    if names and (message := _answers_fault(left) if left else "add cases with other inputs"):
        return (
            f"{names[0]} holds the answers of {len(names)} of {len(cases)} cases, so that code can look them up; "
            f"without these: {message}"
        )
    dropped = set[int]()
    for numbers in _by_program(left).values():
        covered = at_one_place([(left[number][0].inputs, left[number][1].copied) for number in numbers])
        dropped |= {number for place, number in enumerate(numbers) if place in covered and place != min(covered)}
    kept = [case for number, case in enumerate(left) if number not in dropped]
    if dropped and (message := _answers_fault(kept)):
        return (
            f"the answers of {len(dropped) + 1} of {len(cases)} cases stand at one place of their inputs, so that a "
            f"program copies them; if only one of these counts: {message}"
        )
    return ""


def can_be_guessed(stdout: bytes) -> bool:
    """Return whether each line of an expected output is one of the few that many programs print."""
    lines = (line.strip() for line in stdout.decode(errors="replace").splitlines())
    return all(GUESS.fullmatch(line) for line in lines if line)


def _by_program(cases: Cases) -> dict[str, list[int]]:
    """Return the numbers of the cases of each program or function."""
    found = defaultdict[str, list[int]](list)
    for number, (question, _) in enumerate(cases):
        found[question.name].append(number)
    return found


def _answers_fault(cases: Cases) -> str:
    answers = [answer for _, answer in cases]
    if len(answers) == 1 and answers[0].is_number:
        return ""
    for name, numbers in _by_program(cases).items():
        own = [answers[number] for number in numbers]
        if len({answer.text for answer in own}) < 2 and _bits(own[0].new) < MIN_CONSTANT_BITS:
            return (
                f"every case of `{name}` expects the same answer, apart from words of the input, so a constant passes; "
                "add a case with another input and another answer"
            )
    bits = _bits(frozenset[str]().union(*(each.new for each in answers))) + sum(each.bits for each in answers)
    if answers and bits < MIN_BITS:
        return (
            "the answers of the cases can be guessed: the words that the agent can read neither in the files of the "
            f"program nor in the input have {bits:.1f} bits, of at least {MIN_BITS:.0f} (a digit counts "
            f"{BITS_PER_DIGIT:.1f}, another word {BITS_PER_WORD:.0f}, a word of the input {BITS_PER_INPUT_WORD:.0f}, "
            f"True or yes {BITS_PER_CHOICE:.0f}, the same word once); add cases with longer answers, or more cases"
        )
    return ""


def _bits(words: Iterable[str]) -> float:
    return sum(BITS_PER_DIGIT * len(word) if word.isdigit() else BITS_PER_WORD for word in words)


def _answer(question: Question, files: Mapping[str, str], data: str) -> Answer:
    """Return the answer to a question.

    ``files`` are those of the workspace, as words in lowercase between spaces, and ``data`` are words of data files.
    """
    known = _known(question, files)
    expected_words, given = _words(question.expected), [*_words(question.given), *data.split()]
    own, offered = ([word for word in words if word.casefold() not in known] for words in (expected_words, given))
    in_input = {word.casefold() for word in given}
    new = frozenset(word.casefold() for word in own if word.casefold() not in in_input)
    if new:
        digits = "".join(question.expected.split())
        is_number = question.is_call and bool(given) and len(digits) > 1 and digits.isdecimal()
        return Answer(tuple(own), new, 0.0, is_number)
    if own and own != offered:
        bits = len(own) * max(BITS_PER_INPUT_WORD, math.log2(len({*offered})))
        return Answer(tuple(own), new, bits, copied=tuple(own))
    if chosen := tuple(word for word in expected_words if word.casefold() not in in_input):
        return Answer(chosen, new, BITS_PER_CHOICE)
    text = question.expected.strip()
    if expected_words and text not in question.given:
        return Answer((text,), new, len(expected_words) * BITS_PER_INPUT_WORD)
    return Answer((question.outcome,), new, 0.0)


def _known(question: Question, files: Mapping[str, str]) -> frozenset[str]:
    """Return the words of the files that the code of a case uses, and of its answer if a file holds it as a whole.

    The code uses the file that runs, and each file whose name occurs in the input or in a file that the code uses.
    """
    used = {path for path in question.places if path in files}
    named = set(_spaced(question.given).split()).union(*(files[path].split() for path in used))
    while more := {path for path in files.keys() - used if (stem := _stem(path)) and named.issuperset(stem)}:
        used |= more
        named.update(*(files[path].split() for path in more))
    answer = _spaced(question.expected)
    is_part = len(answer.split()) >= MIN_QUOTED_WORDS and any(answer in text for text in files.values())
    is_held = is_part or answer in files.values()
    return COMMON.union(answer.split() if is_held else (), *(files[path].split() for path in used))


def _stem(path: str) -> list[str]:
    return _spaced(path.rpartition("/")[2].partition(".")[0]).split()


def _spaced(text: str) -> str:
    return f" {' '.join(_words(text.casefold()))} "
