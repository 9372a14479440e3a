"""Nothing that an agent wrote becomes markup, and no request of another site, host or method is served."""

from collections.abc import Iterator, Sequence
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.rendering import url
from turnwise.console.viewer.security import POLICY, Door
from turnwise.records import Group, GroupState, Status, Step, Task, Trajectory
from turnwise.store.content.rows import rows_of
from turnwise.store.database import Database
from turnwise.store.maintenance.search_index import update_index
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import HORIZON, call, create_run

HOSTILE = (
    *(
        "<script>alert(1)</script>",
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
    ),
    *(
        "<iframe src=//evil.example>",
        "</div></td></table><h1>owned</h1>",
        '"><script>alert(1)</script>',
        "' onmouseover='alert(1)",
    ),
    *(
        '" autofocus onfocus="alert(1)',
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "//evil.example/x",
    ),
    *("{{ 7 * 7 }}", "{% include 'base.html' %}", "{{ config.__class__ }}", "${7*7}", "#{7*7}", "<%= 7 * 7 %>"),
    *(
        "&lt;b&gt;",
        "&#60;script&#62;",
        "<!--",
        "]]>",
        "<style>body{display:none}</style>",
        "<base href=//evil.example/>",
    ),
    *(
        "<form action=//evil.example>",
        "<meta http-equiv=refresh content=0>",
        "<link rel=stylesheet href=//evil.example>",
    ),
    *("\x1b[2J\x1b]0;owned\x07", "a\x00b", "\x08\x08\x7f", "\u202egnp.exe", "\u2066x\u2069", "\ud83d", "\udc00\ud800"),
    *(
        "../../etc/passwd",
        "%2e%2e%2f",
        "'; DROP TABLE run; --",
        "\\u003cscript\\u003e",
        "<a href=javascript:alert(1)>x</a>",
        "x" * 5000,
    ),
)
PLAIN = "plain text"
ACTING = {*map(chr, range(32)), *"\x7f\u202e\u2066"} - {"\n", "\t"}
ALL = "0.0.0.0"  # noqa: S104 - listened on by no test


class Structure(HTMLParser):
    """The tags of a page with the names of their attributes, and the addresses that it names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attributes)))
        self.addresses += [
            value or "" for name, value in attributes if name in ("href", "src", "action", "data-series")
        ]


def named(text: str) -> str:
    """Return the text as a name. Names are UTF-8 and short, and the client of these tests decodes a path twice."""
    return "odd name" if len(text) > 1_000 or set(text) & set("%\x00\ud83d\udc00") else text


def write(database: Database, text: str) -> None:
    """Write a run of which every name and text is ``text``: a filtered episode, and one that failed."""
    run = named(text)
    create_run(database, run, config={"name": text, text: text, "environments": [{"id": text}]})
    call(database, "add_version", run=run, update=0, parent=None)
    task = Task("task", run, run, 1, "train", {text: text})
    for state, status in ((GroupState.FILTERED, Status.COMPLETED), (GroupState.FAILED, Status.ENV_ERROR)):
        name = f"{run}:{state.value}"
        call(database, "open_group", group=Group(name, run, task, HORIZON, 1))
        call(database, "start_trajectory", trajectory=Trajectory(name, run, name, 0, 0, policy=run))
        parts = {text: 1.0, "b": 0.5}
        step = Step(0, text, "00" * 16, text, 1.0, parts, True, False, False, run, None, 1.0, 1.0, agent=run)
        call(database, "append", trajectory=name, rows=rows_of([step], []))
        end = {"error": text, "final_observation": text, "extras": {text: {text: text}}, "stop_reason": text}
        call(database, "finish_trajectory", trajectory=name, status=status, reward=1.0, success=None, **end)
        call(database, "close_group", group=name, state=state, reason=text)
    call(database, "finish_run", run=run, status="failed", error=text)


@pytest.fixture
def client(own: Database) -> Iterator[TestClient]:
    with client_of(own) as made:
        yield made


def test_a_hostile_search_is_a_text(own: Database, client: TestClient) -> None:
    write(own, "<b>needle</b>")
    assert update_index(own)
    page = client.get("/search", params={"q": "needle"}).text
    assert "&lt;b&gt;needle&lt;/b&gt;" in page
    for text in HOSTILE[:-1]:
        answer = client.get(url("search", q=text))
        assert answer.status_code == 200, text
        assert {tag[0] for tag in Structure(answer.text).tags}.isdisjoint({"iframe", "img", "style", "base", "h3"})


def test_every_response_has_the_headers(client: TestClient) -> None:
    for path in ("/runs", "/api/runs", "/static/base.css", "/nothing", "/images/" + "0" * 64):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "127.0.0.1:x", "[::1"]
)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/runs", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:8600"])
def test_a_loopback_host_is_served(client: TestClient, host: str) -> None:
    assert client.get("/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "http://127.0.0.1:8600"}, 200),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 200),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 200),
    ],
)
def test_a_page_of_another_site_reads_nothing(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.get("/runs", headers=headers).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, "/runs").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/static/../application.py",
            "/static/%2e%2e/application.py",
            "/static/..%2fapplication.py",
            "/static//etc/passwd",
        ),
        *("/images/../../etc/passwd", "/images/%2e%2e%2f%2e%2e%2fetc%2fpasswd", f"/images/{'A' * 64}", "/images/x"),
    ],
)
def test_no_path_leaves_its_folder(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


@pytest.mark.parametrize("text", ["r' OR '1'='1", "r; DROP TABLE run", 'r" --', "1 UNION SELECT * FROM run"])
def test_no_sql_comes_from_the_url(own: Database, client: TestClient, text: str) -> None:
    create_run(own)
    assert client.get(url("runs", text)).status_code == 404
    assert client.get(url("trajectories", run=text)).status_code == 404
    assert client.get(url("trajectories", env=text)).status_code == 200
    assert client.get(url("trajectories", sort=text)).status_code == 400
    assert client.get("/runs/r").status_code == 200


def test_another_address_needs_the_token(own: Database) -> None:
    client = client_of(own, Door.of(ALL, "secret"))
    assert client.get("/runs").status_code == 401
    assert client.get("/runs?token=other").status_code == 401
    assert client.get("/runs", headers={"authorization": "Bearer secret"}).status_code == 200
    answer = client.get("/runs?kind=train&token=secret")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?kind=train")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert client.get("/runs").status_code == 200


def test_a_server_of_all_addresses_is_not_called_by_another_name(own: Database) -> None:
    client = client_of(own, Door.of(ALL, "secret"))
    assert client.get("/runs?token=secret", headers={"host": "10.1.2.3:8600"}).status_code == 303
    assert client.get("/runs?token=secret", headers={"host": "rebound.example"}).status_code == 421
