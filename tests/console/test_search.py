"""``turnwise trajectories search``: a hit is shown by its text, in whatever spelling the index found it."""

import json

from .conftest import Turnwise


def test_a_hit_with_another_spelling_is_shown_and_not_called_removed(turnwise: Turnwise, store: str) -> None:
    hits = json.loads(turnwise("trajectories", "search", "[/RÉD]", "--json", "--store", store).out)["hits"]
    assert [(hit["field"], "click" in hit["text"]) for hit in hits] == [("action", True)]
