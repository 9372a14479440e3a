"""Targets are drawn on their place of a picture, in whatever size the page shows it."""

from dataclasses import replace

import pytest
from turnwise.records import Status
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database
from turnwise.tests.console.viewer.browser.test_chromium import walked
from turnwise.tests.console.viewer.conftest import serving
from turnwise.tests.console.viewer.pages.episode.test_pictures import picture
from turnwise.tests.store.making import call, group, records, start, trajectory

SIZES = {
    "64x48": [56, 28],
    "1280x800": [644, 392],
    "112x112": [112, 112],
    "640x480": [336, 336, 80, 0, 480, 480],
}
"""A small picture, which is narrower than the words below it; a large one, smaller on the page; one as it is; and one
that the processor cut."""


@pytest.mark.slow
@pytest.mark.docker
def test_targets_are_drawn_at_their_place(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group("g", size=1))
    call(own, "start_trajectory", trajectory=trajectory("g-0"))
    targets = {}
    for index, size in enumerate(SIZES):
        width, height = map(int, size.split("x"))
        screen = picture(width, height)
        steps, messages = records(index)
        steps = [replace(one, images=(digest(screen),)) for one in steps]
        call(own, "append", trajectory="g-0", rows=rows_of(steps, messages, {digest(screen): screen}))
        targets[str(index)] = [[width * 0.25, height * 0.75], [width / 2, 1, width / 4, height / 4]]
    end = {"success": True, "error": "", "stop_reason": "", "final_observation_hash": "ee" * 16}
    extras = {"targets": targets, "image_sizes": SIZES}
    call(own, "finish_trajectory", trajectory="g-0", status=Status.COMPLETED, reward=1.0, extras=extras, **end)
    with serving(own) as address:
        assert walked("walk_targets.py", address, "8", "/trajectories/g-0") == []
