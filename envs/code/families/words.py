"""Draw the choices and the names of an instance from one random stream, and write its source files."""

import textwrap

from ...draws import SeededDraws, held_out, words

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
