"""The parts of every family: the draws and the names of an instance, its texts, and a task around a program."""

import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .....sandbox import Tree
from ....draws import SeededDraws, held_out, words
from ..task import Case, CodeTask

NOUNS = words("""
    amber anchor apron arrow basil beacon birch bishop bolt brook cabin candle canvas cedar cellar chalk cinder clover
    cobalt copper coral cotton crane cricket dagger daisy delta ember falcon fennel ferry flint forge garnet ginger
    glacier granite harbor hazel heron indigo iris ivory jasper juniper kestrel lagoon lantern laurel ledger lilac
    linen lotus magnet maple marble meadow mercury mint mosaic nectar nickel nutmeg oasis olive onyx opal orbit orchid
    otter paddle pebble pepper pilot plume poplar quarry quartz quill raven ribbon saddle saffron sage satin silver
    slate sparrow spruce summit tallow teal thistle timber topaz tulip tundra umber velvet violet walnut willow zinc
""")


class Words(SeededDraws):
    """One instance's choices. ``first``, ``second`` and ``third`` are different nouns, and together its identity: every
    family writes all three into its files.
    """

    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.first, self.second, self.third = self.sample(NOUNS, 3)

    @property
    def held_out(self) -> bool:
        """Return whether an instance of these names, in any order, belongs to the test split."""
        return held_out(" ".join(sorted((self.first, self.second, self.third))))

    def text(self, template: str, **values: object) -> str:
        """Return a text of a family with each ``<key>`` and then each name replaced.

        ``<first>`` is the first name, ``<First>`` the name with a capital, and ``<FIRST>`` the name in capitals.
        """
        names = {"first": self.first, "second": self.second, "third": self.third}
        spelled = {way(key): way(name) for way in (str.lower, str.title, str.upper) for key, name in names.items()}
        for key, value in (values | spelled).items():
            template = template.replace(f"<{key}>", str(value))
        return template


def texts(family: str) -> dict[str, Any]:
    """Return the instruction and the programs of a family, right and wrong ones, as its file has them."""
    return tomllib.loads(Path(__file__).with_name(f"{family}.toml").read_text())


def program_task(
    words: Words,
    family: Mapping[str, Any],
    *,
    name: str,
    given: str,
    right: str,
    wrong: Mapping[str, str],
    inputs: Sequence[str],
    reference: Callable[[str], str],
    **values: object,
) -> CodeTask:
    """Build a task in which ``python3 <first>.py`` must print the result of ``reference`` for any input.

    The instruction shows the first of ``inputs`` with its answer; the others are the hidden cases. ``given``, ``right``
    and each of ``wrong`` are what stands in the place of ``<body>`` in the program of the family, and ``values`` in the
    other places. Two wrong solutions are added: one that prints the answer of the example, and one that prints nothing.
    """
    path = f"{words.first}.py"

    def program(body: str) -> dict[str, bytes]:
        return {path: words.text(family["program"], body=body.strip("\n"), **values).encode()}

    example, *hidden = inputs
    by_heart = f"import sys\n\nsys.stdin.read()\nprint({reference(example).rstrip()!r})\n"
    shown = f"For example, from\n\n{_indented(example)}\nit must make\n\n{_indented(reference(example))}"
    return CodeTask(
        name=name.replace(" ", "-"),
        instruction=f"{words.text(family['instruction'], **values)}\n\n{shown}",
        workspace=Tree.of(program(given)),
        cases=tuple(Case(("python3", path), reference(each).encode(), each.encode()) for each in hidden),
        solution=program(right),
        mutations={
            **{what: program(body) for what, body in wrong.items()},
            "the example by heart": {path: by_heart.encode()},
            "nothing printed": {path: b""},
        },
    )


def _indented(block: str) -> str:
    return textwrap.indent(block.rstrip() + "\n", "    ")
