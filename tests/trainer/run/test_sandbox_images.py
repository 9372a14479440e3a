"""A run whose sandboxes lack an image is refused before it starts anything."""

from pathlib import Path

import pytest
from turnwise.sandbox.errors import NoImage
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.run.run import train


def test_a_desktop_in_the_local_backend_starts_nothing(tmp_path: Path) -> None:
    desktop = {"id": "turnwise/TinyDesktop-v0"}
    config = parse_config({"name": "r", "environments": [desktop], "sandboxes": {"backend": "local"}})
    notes: list[object] = []
    with pytest.raises(NoImage, match="`local` has no images"):
        train(config, store_url=f"sqlite:///{tmp_path}/turnwise.db", report=notes.append)
    assert notes == []
    assert not (tmp_path / "turnwise.db").exists()
