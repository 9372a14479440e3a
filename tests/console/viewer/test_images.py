"""Images of a store are served as they are, or in the size in which a policy saw them, and nothing else is decoded."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO

import pytest
from PIL import Image
from starlette.testclient import TestClient
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import Database
from turnwise.tests.agents.pictures import UNREADABLE, claimed, png
from turnwise.tests.console.viewer.conftest import client_of

SCREEN = png(64, 48)


def address(content: bytes) -> str:
    return f"/images/{NewBlob.of(content, PNG).hash}"


@pytest.fixture
def served(own: Database) -> Iterator[TestClient]:
    contents = [SCREEN, claimed(4_096, 2_049), *(content for content, _ in UNREADABLE.values())]
    with own.transaction() as tx:
        blobs = [NewBlob.of(content, PNG) for content in contents]
        own.blobs.insert(tx.conn, {one.hash: one for one in blobs}, datetime.now(UTC))
    with client_of(own) as client:
        yield client


def test_an_image_is_resized_as_the_image_processor_does(served: TestClient) -> None:
    assert served.get(address(SCREEN)).content == SCREEN
    answer = served.get(address(SCREEN), params={"size": "56x28"})
    with Image.open(BytesIO(answer.content)) as found, Image.open(BytesIO(SCREEN)) as screen:
        assert found.tobytes() == screen.resize((56, 28), Image.Resampling.BICUBIC).tobytes()
    assert answer.headers["content-type"] == "image/png"
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize("size", ["", "0x9", "9", "-9x9", "4096x2049", "99999x99999", "9x9x9", "٩x9"])
def test_a_size_that_is_none_is_refused(served: TestClient, size: str) -> None:
    assert served.get(address(SCREEN), params={"size": size}).status_code == 400


def test_a_picture_that_is_too_large_is_not_decoded(served: TestClient) -> None:
    assert served.get(address(claimed(4_096, 2_049)), params={"size": "28x28"}).status_code == 400


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_picture_that_cannot_be_read_is_not_resized(served: TestClient, name: str) -> None:
    assert served.get(address(UNREADABLE[name][0]), params={"size": "28x28"}).status_code in (400, 404)
