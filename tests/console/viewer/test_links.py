"""The links that ``turnwise view --open`` takes."""

import pytest
from turnwise.console.viewer.links import BadLink, page_of
from turnwise.store.database import Database


@pytest.mark.parametrize(
    ("link", "page"),
    [
        *(("r", "/runs/r"), ("a", "/groups/a"), ("a-0", "/trajectories/a-0"), ("/runs?kind=eval", "/runs?kind=eval")),
        (
            "http://127.0.0.1:8600/trajectories/a-0?turn=1&quote=x%20y#turn-1",
            "/trajectories/a-0?turn=1&quote=x%20y#turn-1",
        ),
    ],
)
def test_a_link_leads_to_a_page(viewed: Database, link: str, page: str) -> None:
    assert page_of(viewed, link) == page


@pytest.mark.parametrize("link", ["nothing", "//evil.example", "javascript://x", "/\\evil.example", "file:///x"])
def test_another_link_is_refused(viewed: Database, link: str) -> None:
    with pytest.raises(BadLink, match="--open"):
        page_of(viewed, link)
