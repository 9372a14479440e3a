"""Find answers that stand where the agent, or the code under test, reads them.

A file that holds the input of a case next to its answer is a table to look the answer up in. An input that holds the
answer always at the same place needs no solution either: a program copies what stands there.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

WORD = re.compile(r"\d+|[^\W\d_]+")
GAP_WORDS = 4
"""Words between two words of an input and its answer, such as the labels of a table."""
WINDOW_WORDS = 16
"""Words per answer of a table."""
MARGIN_BITS = 4.0
SHORT_WORDS, SHORT_GAP_WORDS = 2, 1
"""Few words stand near each other by chance."""
WORD_BITS = 6.0
"""Of a word that is no number."""
MAX_STEPS = 100_000
"""Places that the search for one case visits in one file."""

Words = Sequence[str]
Positions = Mapping[str, Sequence[int]]
"""Where each word of a text stands, as ``positions`` returns it."""
Inputs = Mapping[str, str]
"""The parts of the input of a case, by name: arguments, standard input, files."""


def words(text: str) -> list[str]:
    """Return the words and numbers of a text."""
    return WORD.findall(text)


def positions(text: Words) -> dict[str, list[int]]:
    """Return the positions of each word of a text."""
    found = defaultdict[str, list[int]](list)
    for number, word in enumerate(text):
        found[word].append(number)
    return dict(found)


def holders(cases: Sequence[tuple[Words, Words]], files: Mapping[str, Positions]) -> list[str]:
    """Return, by case, the name of a file that holds its input next to its answer, in either order; empty if none does.

    Each case is the words of its input and of its answer. Labels between the words do not count, and neither do files
    in which so many cases stand by chance, as they do in a grid of two digits.
    """
    names = [""] * len(cases)
    for name, at in files.items():
        held = {number: bits for number, case in enumerate(cases) if (bits := _held_bits(*case, at))}
        chance = math.log2(math.comb(len(cases), len(held)) * len(files)) + MARGIN_BITS
        if held and sum(held.values()) >= chance:
            names = [names[number] or (name if number in held else "") for number in range(len(cases))]
    return names


def _held_bits(given: Words, answer: Words, at: Positions) -> float:
    """Return how improbable it is that a file holds an input next to its answer by chance; 0 if it does not hold it."""
    numbers = [word for word in given if word.isdigit()]
    orders = [[*given, *answer], [*answer, *given], *([[*numbers, *answer]] if numbers else [])]
    wanted = [order for order in orders if given and answer and all(word in at for word in order)]
    pairs = [
        (order, gap) for order in wanted for gap in (0, GAP_WORDS if len(order) > SHORT_WORDS else SHORT_GAP_WORDS)
    ]
    found = ((order, gap, bits) for order, gap in pairs if (bits := _bits(order, gap, at)) > 0)
    return next((bits for order, gap, bits in found if _stand_together(order, gap, at)), 0.0)


def _bits(wanted: Words, gap: int, at: Positions) -> float:
    """Return the bits of words that stand near one another. A word is as frequent as in the rest of the file."""
    size = sum(map(len, at.values()))
    rates = ((len(at[word]) - 1) / size + _frequency(word) for word in wanted[1:])
    return sum(-min(0.0, math.log2((gap + 1) * rate)) for rate in rates) - math.log2(len(at[wanted[0]]))


def _frequency(word: str) -> float:
    return 10.0 ** -len(word) if word.isdigit() else 2.0**-WORD_BITS


def _stand_together(wanted: Words, gap: int, at: Positions) -> bool:
    """Return whether at most ``gap`` words stand between two words in a row; False if the search takes too long."""
    steps = 0
    reached = set(at[wanted[0]])
    for word in wanted[1:]:
        steps += len(at[word])
        if steps > MAX_STEPS:
            return False
        reached = {number for number in at[word] if not reached.isdisjoint(range(number - gap - 1, number))}
        if not reached:
            return False
    return True


def gathered(answers: Sequence[Words], bits: float, files: Mapping[str, Positions]) -> str:
    """Return the name of a file that holds all answers near one another, as a column does; empty if none does.

    ``bits`` are those of all answers: short ones stand near one another by chance.
    """
    for name, at in files.items():
        size = sum(map(len, at.values()))
        window = min(size, WINDOW_WORDS * len(answers))
        chance = math.log2(size or 1) + len(answers) * math.log2(window or 1) + MARGIN_BITS
        if len(answers) > 1 and bits >= chance and _within(window, [list(_runs(words, at)) for words in answers]):
            return name
    return ""


def _runs(wanted: Words, at: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Yield each position at which the words stand one after the other."""
    later = [frozenset(at.get(word, ())) for word in wanted]
    return (start for start in at.get(wanted[0], ()) if all(start + n in each for n, each in enumerate(later)))


def _within(window: int, found: Sequence[Sequence[int]]) -> bool:
    """Return whether positions, one of each list, lie within a window."""
    last = dict[int, int]()
    for position, number in sorted((position, number) for number, each in enumerate(found) for position in each):
        last[number] = position
        if len(last) == len(found) and position - min(last.values()) <= window:
            return True
    return False


def at_one_place(cases: Sequence[tuple[Inputs, Words]]) -> frozenset[int]:
    """Return the numbers of those cases of a program whose answers stand at one place of their inputs.

    It is the place that fits most cases, and more than three quarters of them; there is none if no place does. Each
    case comes with the words of its answer.
    """
    found = [frozenset(_places(inputs, answer)) for inputs, answer in cases]
    counts = Counter(place for places in found for place in places)
    place, count = max(counts.items(), key=lambda each: each[1], default=("", 0))
    return frozenset(
        number for number, places in enumerate(found) if 4 * count > 3 * len(cases) > 3 and place in places
    )


def _places(inputs: Inputs, answer: Words) -> Iterator[Hashable]:
    """Yield each place of an input at which an answer stands: by number from both ends, by line, by the word before."""
    wanted = tuple(answer[:1] if len(set(answer)) == 1 else answer)
    size = len(wanted)
    if not size:
        return
    for name, text in inputs.items():
        lines = [tuple(words(line)) for line in text.split("\n")]
        every = tuple(word for line in lines for word in line)
        for start in (start for start in range(len(every)) if every[start : start + size] == wanted):
            yield from ((name, "first", start, size), (name, "last", len(every) - start, size))
            yield from ((name, "after", word, size) for word in every[max(0, start - 1) : start])
        for number, line in enumerate(lines):
            if line == wanted:
                yield from ((name, "line", number), (name, "line", number - len(lines)))
            elif line[-size:] == wanted:
                yield (name, "end of line", line[-size - 1])
