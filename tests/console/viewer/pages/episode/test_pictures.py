"""Pictures have their size and the places that actions point at, and nothing that is not known."""

from io import BytesIO

import pytest
from PIL import Image
from starlette.testclient import TestClient
from turnwise.console.viewer.pages.episode.pictures import (
    Picture,
    Target,
    Thumbnail,
    Window,
    pictures,
    png_size,
    processed_sizes,
    targets_of,
    window_of,
)
from turnwise.records import Message, Role, Source, Step
from turnwise.tests.store.maintenance.populated import SCREEN


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    file = BytesIO()
    Image.new("RGB", (width, height)).save(file, kind)
    return file.getvalue()


def test_the_size_is_that_of_the_header() -> None:
    assert png_size(picture(640, 48)) == (640, 48)
    assert [png_size(one) for one in (picture(9, 9, "JPEG"), SCREEN, picture(9, 9)[:20], b"")] == [None] * 4


@pytest.mark.parametrize(
    ("extras", "expected"),
    [
        ({"targets": {"1": [[1, 2], [3, 4.5, 6, 7]]}}, [Target(1, 2), Target(3, 4.5, 6, 7)]),
        ({"targets": {"0": [[1, 2]]}}, []),
        ({"targets": {"1": [[1, 2, 3], "x", ["a", 1], [True, None]]}}, []),
        (
            {"targets": {"1": [[1e308, 2], [1, 10**400], [1, float("nan")], [1, 2, -3, 4], [-9, 2, 0, 0]]}},
            [Target(-9, 2)],
        ),
        ({"targets": {"1": 5}}, []),
        ({"targets": "none"}, []),
        ({}, []),
    ],
)
def test_only_reported_places_are_targets(extras: dict[str, object], expected: list[Target]) -> None:
    assert targets_of(extras, 1) == expected


def test_targets_are_drawn_on_the_screen_of_known_size_alone() -> None:
    place = [Target(1, 2)]
    assert pictures(["a", "b"], {"a": (4, 3), "b": (4, 3)}, place) == [Picture("a", 4, 3, place), Picture("b", 4, 3)]
    assert pictures(["a"], {}, place) == [Picture("a", None, None)]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"64x48": [56, 28]}, {(64, 48): ((56, 28), None)}),
        ({"64x48": [24, 24, 8, 0, 48, 48]}, {(64, 48): ((24, 24), (8, 0, 48, 48))}),
        ({"64x48": [24, 24, 17, 0, 48, 48], "9x9": [8, 8, -1, 0, 4, 4], "9x8": [8, 8, 0, 0, 0, 4]}, {}),
        ({"64x48": [24, 24, 8, 0, 48], "9x9": [8, 8, 1.5, 0, 4, 4]}, {}),
        ({"64x48": [0, 28]}, {}),
        ({"64x48": [True, 28], "9x9": [28], "9x8": "28", "9": [28, 28], "0x9": [28, 28]}, {}),
        ({"64x48": [28, 10**9]}, {}),
        ("none", {}),
    ],
)
def test_only_sizes_of_an_image_processor_are_read(stored: object, expected: dict[object, object]) -> None:
    assert processed_sizes({"image_sizes": stored}) == expected


def test_a_picture_has_the_size_that_the_policy_saw_and_a_kept_one_has_none() -> None:
    part = (8, 0, 48, 48)
    sizes, processed = {"a": (64, 48)}, {(64, 48): ((24, 24), part)}
    assert pictures(["a"], sizes, (), processed) == [Picture("a", 64, 48, (), (24, 24), part)]
    assert pictures(["a"], sizes, (), processed, is_kept=True) == [Picture("a", 64, 48, (), None, None, True)]


def message(index: int, parent: int | None, *images: str) -> Message:
    return Message(index, parent, Role.USER, Source.ENV, [], [], [], [], images)


def turn(index: int, answer: int | None, *images: str) -> Step:
    return Step(index, "", "", "", 0.0, {}, False, False, True, "", answer, 0.0, 0.0, images)


def test_the_context_of_a_turn_has_the_newest_pictures_and_the_others_were_dropped() -> None:
    """The third observation begins the context again with two pictures, the fourth with one; a turn may have two."""
    shown = [message(0, None, "a"), message(2, 1, "b", "a"), message(4, None, "a", "c"), message(6, None, "d")]
    answers = [message(1, 0), message(3, 2), message(5, 4), message(7, 6)]
    messages = {one.index: one for one in (*shown, *answers)}
    steps = {one.index: one for one in (turn(0, 1, "a"), turn(1, 3, "b", "a"), turn(2, 5, "c"), turn(3, 7, "d"))}
    assert [window_of(steps[index], steps, messages) for index in range(4)] == [
        Window([Thumbnail(0, "a")], 0, []),
        Window([Thumbnail(0, "a"), Thumbnail(1, "b"), Thumbnail(1, "a")], 0, []),
        Window([Thumbnail(1, "a"), Thumbnail(2, "c")], 2, [0, 1]),
        Window([Thumbnail(3, "d")], 4, [0, 2]),
    ]
    assert window_of(turn(0, None, "a"), steps, messages) is None
    assert window_of(steps[1], steps, {3: messages[3]}) is None


def test_an_episode_has_a_strip_of_its_pictures_and_the_picture_after_each_action(client: TestClient) -> None:
    page = client.get("/api/trajectories/a-0").json()
    assert [one["turn"] for one in page["thumbnails"]] == [0, 1, 2]
    assert page["turns"][0]["after"]["hash"] == page["turns"][1]["pictures"][0]["hash"]
    assert page["turns"][1]["after"]["hash"] == page["final_pictures"][0]["hash"]
