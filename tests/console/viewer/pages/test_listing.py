"""No path and no query, however odd, is answered by an error of the server."""

from urllib.parse import quote, urlencode

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from turnwise.console.viewer.pages.listing import PAGES
from turnwise.tests.console.viewer.test_security import HOSTILE

TEXTS = st.sampled_from((*HOSTILE[:-1], "", "r", "a", "a-0", "1", "0", "-1", "1-2", "r,s", str(2**63))) | st.text(
    max_size=40
)
NAMES = st.sampled_from(sorted({name for page in PAGES for name in page.query})) | st.text(max_size=8)
PATHS = st.lists(
    st.sampled_from(("runs", "groups", "trajectories", "updates", "tasks", "replay", "..")) | TEXTS, max_size=5
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    page=st.sampled_from(PAGES),
    names=st.lists(TEXTS, min_size=2, max_size=2),
    query=st.dictionaries(NAMES, TEXTS, max_size=3),
)
def test_no_query_is_an_error_of_the_server(client: TestClient, page, names, query) -> None:
    parts = (quote(one, safe="", errors="replace") for one in (*names, ""))
    path = "/".join(next(parts) if one.startswith("{") else one for one in page.path.split("/"))
    answer = client.get(f"/api{path}?{urlencode(query, errors='replace')}")
    assert answer.status_code in (200, 400, 404), answer.text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PATHS)
def test_no_path_is_an_error_of_the_server(client: TestClient, parts) -> None:
    answer = client.get("/" + "/".join(quote(one, safe="", errors="replace") for one in parts).lstrip("/"))
    assert answer.status_code in (200, 307, 400, 404), answer.text
