"""Pictures have their size and the places that actions point at, and nothing that is not known."""

from io import BytesIO

import pytest
from PIL import Image
from starlette.testclient import TestClient
from turnwise.console.viewer.pages.episode.pictures import Picture, Target, pictures, png_size, targets_of
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


def test_an_episode_has_a_strip_of_its_pictures_and_the_picture_after_each_action(client: TestClient) -> None:
    page = client.get("/api/trajectories/a-0").json()
    assert [one["turn"] for one in page["thumbnails"]] == [0, 1, 2]
    assert page["turns"][0]["after"]["hash"] == page["turns"][1]["pictures"][0]["hash"]
    assert page["turns"][1]["after"]["hash"] == page["final_pictures"][0]["hash"]
