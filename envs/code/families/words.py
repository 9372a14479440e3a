"""Draw the choices and the names of an instance from one random stream, and write its source files."""

import textwrap
from collections.abc import Callable, Mapping, Sequence

from ....sandbox import Tree
from ...draws import SeededDraws, held_out, words
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
        """Return a source file: the dedented template with each ``<key>`` and then each name replaced.

        ``<first>`` is the first name, and ``<First>`` the name with a capital.
        """
        names = {"first": self.first, "second": self.second, "third": self.third}
        titles = {key.title(): name.title() for key, name in names.items()}
        out = textwrap.dedent(template).lstrip("\n")
        for key, value in (values | names | titles).items():
            out = out.replace(f"<{key}>", str(value))
        return out


def program_task(
    *,
    name: str,
    instruction: str,
    path: str,
    given: str,
    right: str,
    wrong: Mapping[str, str],
    inputs: Sequence[str],
    reference: Callable[[str], str],
) -> CodeTask:
    """Build a task in which ``python3 path`` must print the result of ``reference`` for any input.

    The instruction shows the first of ``inputs`` with its answer; the others are the hidden cases. Two wrong solutions
    are added to ``wrong``: one that prints the answer of the example, and one that prints nothing.
    """
    example, *hidden = inputs
    by_heart = f"import sys\n\nsys.stdin.read()\nprint({reference(example).rstrip()!r})\n"
    shown = f"For example, from\n\n{_indented(example)}\nit must make\n\n{_indented(reference(example))}"
    sources = {**wrong, "the example by heart": by_heart, "nothing printed": ""}
    return CodeTask(
        name=name,
        instruction=f"{instruction.strip()}\n\n{shown}",
        workspace=Tree.of({path: given.encode()}),
        cases=tuple(Case(("python3", path), reference(each).encode(), each.encode()) for each in hidden),
        solution={path: right.encode()},
        mutations={what: {path: source.encode()} for what, source in sources.items()},
    )


def _indented(block: str) -> str:
    return textwrap.indent(block.rstrip() + "\n", "    ")
