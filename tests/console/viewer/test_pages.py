"""Every page is served as HTML and as JSON, and states what the store holds."""

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import event, text
from starlette.testclient import TestClient
from turnwise.console.viewer.pages import groups
from turnwise.records import GroupState, Status
from turnwise.store.database import Database, open_database, upgrade
from turnwise.store.errors import StoreError
from turnwise.store.exchange.images import image_type
from turnwise.store.operations import Rewards
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.maintenance.populated import LARGE_SCREEN, SCREEN, populate
from turnwise.tests.store.making import call, create_run, group, play, play_scored, start
from turnwise.tests.store.postgres import Server
from turnwise.trainer.config.loading import parse_config

PAGES = (
    *(
        "/runs",
        "/runs?kind=train&status=stopped",
        "/runs/r",
        "/runs/s",
        "/runs/r/groups",
        "/runs/r/groups?state=filtered",
    ),
    *(
        "/runs/r/failures",
        "/runs/r/tasks",
        "/runs/r/tasks?purpose=train",
        "/runs/r/updates/1",
        "/groups/a",
        "/groups/open",
        "/groups/failed",
        "/trajectories",
    ),
    *("/runs/r/logs", "/runs/s/logs?level=error", "/trajectories/a-0/replay", "/trajectories/open-0/replay"),
    *("/trajectories?run=r&sort=reward", "/trajectories/a-0", "/trajectories/a-0?view=tokens&shade=mask"),
    *("/trajectories/open-0", "/trajectories/failed-0", "/search?q=page", "/compare", "/compare?runs=r,s"),
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_html_and_its_record_is_json(client: TestClient, path: str) -> None:
    page, record = client.get(path), client.get(f"/api{path}")
    assert (page.status_code, record.status_code) == (200, 200), page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert record.headers["content-type"] == "application/json"
    assert record.json()
    assert page.text.startswith("<!doctype html>")


def test_every_link_of_the_pages_leads_to_a_page(client: TestClient) -> None:
    pages = (
        "/runs",
        "/runs/r",
        "/runs/r/groups",
        "/runs/r/updates/1",
        "/groups/a",
        "/trajectories/a-0",
        "/search?q=page",
    )
    links = {link for path in pages for link in re.findall(r'(?:href|src)="(/[^"#?]*)', client.get(path).text)}
    assert len(links) > 25
    lost = {link for link in links if client.get(link).status_code != 200}
    assert lost == set()


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/runs/quickstrat", 404, "no run quickstrat in the store"),
        ("/groups/none", 404, "no group none in the store"),
        ("/trajectories/none", 404, "no trajectory none in the store"),
        ("/runs/r/updates/9", 404, "run r has no update 9"),
        ("/runs/r/updates/x", 400, "&#39;x&#39; is not a whole number"),
        ("/runs?status=finshed", 400, "did you mean &#39;finished&#39;?"),
        ("/trajectories/a-0?start=-1", 400, "is not a whole number"),
        ("/compare?runs=" + ",".join(f"r{number}" for number in range(9)), 400, "at most 8 are compared"),
        ("/nothing", 404, "there is no such page"),
    ],
)
def test_an_address_without_a_page_is_answered_in_one_sentence(
    client: TestClient, path: str, status: int, message: str
) -> None:
    page = client.get(path)
    assert (page.status_code, message in page.text) == (status, True), page.text
    if path != "/nothing":
        assert client.get(f"/api{path}").status_code == status


def test_a_group_states_its_fate_and_where_its_members_part(client: TestClient) -> None:
    consumed, filtered = client.get("/api/groups/b").json(), client.get("/api/groups/eval").json()
    assert consumed["fate"]["fate"] == "consumed in update 1"
    assert [one["tokens_trained"] for one in consumed["fate"]["members"]] == [4, 4]
    assert consumed["first_divergence"] is None
    assert filtered["fate"]["fate"] == "evaluation, which no update trains on"
    branched = client.get("/api/groups/a").json()
    assert (branched["first_divergence"], len(branched["rows"])) == (1, 2)
    assert "the members part here" in client.get("/groups/a").text
    assert [cell is None for cell in branched["rows"][1]["cells"]] == [False, True]


def test_a_flat_group_is_flagged(own: Database) -> None:
    start(own)
    play_scored(own, "flat", 0, [1.0, 1.0], GroupState.FILTERED)
    play_scored(own, "steep", 1, [1.0, 0.0])
    client = client_of(own)
    assert "Zero variance" in client.get("/groups/flat").text
    assert "Zero variance" not in client.get("/groups/steep").text
    fates = client.get("/api/runs/r/groups").json()["groups"]
    assert [(one["group"]["id"], one["is_flat"]) for one in fates] == [("steep", False), ("flat", True)]


def test_the_returns_of_a_group_are_those_of_its_scored_members(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group("g", size=3))
    for member, status in enumerate((Status.COMPLETED, Status.COMPLETED, Status.CANCELLED)):
        play(own, f"g-{member}", "g", member, 0, 1, 0, status)
    call(own, "close_group", group="g", state=GroupState.SCORING)
    scores = [Rewards(f"g-{member}", [1.0]) for member in range(2)]
    call(own, "score_group", group="g", number=0, state=GroupState.FILTERED, rewards=scores)
    client = client_of(own)
    (fate,) = client.get("/api/runs/r/groups").json()["groups"]
    assert (fate["totals"], fate["is_flat"], len(fate["members"])) == ([1.0, 1.0], True, 3)
    assert '<td class="n">1 <span class="tag warn"' in client.get("/runs/r/groups").text


def test_ids_are_shown_as_they_are(own: Database) -> None:
    for name in ("a", "b"):
        create_run(own, f"r_{name}", config={"environments": [{"id": f"tiny_tickets:{name}_b-v0"}]})
    shown = client_of(own).get("/runs").text
    assert ">tiny_tickets:a_b-v0</a>" in shown
    assert "tiny tickets" not in shown


def test_an_episode_shows_its_turns_with_rewards_and_pictures(client: TestClient) -> None:
    page = client.get("/api/trajectories/a-0").json()
    assert [(turn["action"]["text"], turn["reward_parts"]) for turn in page["turns"]] == [
        ("click 0", {"shape": 0.5}),
        ("click 1", {"shape": 0.5}),
    ]
    assert page["turns"][1]["observation"] == {"text": ("a long page " * 400)[:4000], "chars": 4800, "quoted": []}
    whole = client.get("/api/trajectories/a-0?turn=1").json()["turns"]
    assert [len(turn["observation"]["text"]) for turn in whole] == [4800]
    contents = {client.get(f"/images/{one['hash']}").content for one in page["turns"][0]["pictures"]}
    assert contents == {SCREEN, LARGE_SCREEN}
    tokens = client.get("/api/trajectories/b-0?view=tokens").json()["strip"]["turns"][0]["rows"]
    assert [(row["id"], row["mask"], row["logprob"]) for row in tokens][-2:] == [(5, 1, -0.5), (2, 1, -0.25)]


def test_long_lists_are_paged(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "PAGE_ROWS", 3)
    start(own)
    for number in range(4):
        play_scored(own, f"g{number}", number, [1.0])
    client = client_of(own)
    first = client.get("/api/runs/r/groups").json()
    second = client.get(f"/api/runs/r/groups?after={first['after']}").json()
    names = [one["group"]["id"] for one in (*first["groups"], *second["groups"])]
    assert (len(first["groups"]), names) == (3, ["g3", "g2", "g1", "g0"])
    assert "Next page" in client.get("/runs/r/groups").text


def test_a_run_shows_what_differs_from_the_defaults(own: Database) -> None:
    raw = {"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], "rollout": {"group_size": 3}}
    create_run(own, config=parse_config(raw).resolved())
    changed = [one for one in client_of(own).get("/api/runs/r").json()["config"] if one["is_changed"]]
    assert changed == [{"key": "rollout.group_size", "value": 3, "default": 8, "is_changed": True}]


def test_a_comparison_has_the_tasks_that_differ(client: TestClient) -> None:
    page = client.get("/api/compare?runs=r,s").json()
    assert [one["run"] for one in page["comparison"]["runs"]] == ["r", "s"]
    assert [(one["run"], one["p_value"]) for one in page["paired"]] == [("s", None)]


def test_a_store_without_an_index_names_the_command_that_makes_it(own: Database) -> None:
    start(own)
    page = client_of(own).get("/search?q=page")
    assert (page.status_code, "turnwise trajectories search WORD" in page.text) == (200, True)
    assert client_of(own).get("/api/search?q=page").json()["unindexed"] is None


def test_the_store_is_opened_read_only(viewed: Database) -> None:
    with pytest.raises(StoreError, match="cannot be used"), viewed.transaction() as tx:
        tx.conn.execute(text("DELETE FROM run"))


def test_no_page_writes(populated: str) -> None:
    database = open_database(populated, read_only=True)
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *given: statements.append(str(given[2])))
    client = client_of(database)
    for path in PAGES[-8:]:
        client.get(path)
    database.close()
    words = {statement.split()[0].upper() for statement in statements}
    assert words <= {"SELECT", "BEGIN", "PRAGMA", "WITH"}, words


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Database]:
    server = Server()
    try:
        url = server.url(server.create())
        upgrade(url)
        writing = open_database(url)
        populate(writing)
        writing.close()
        database = open_database(url, read_only=True)
        yield database
        database.close()
    finally:
        server.stop()


@pytest.mark.postgres
def test_every_page_is_served_from_postgresql(postgresql: Database) -> None:
    with client_of(postgresql) as client:
        assert {path: client.get(path).status_code for path in PAGES} == dict.fromkeys(PAGES, 200)
    with pytest.raises(StoreError, match="cannot"), postgresql.transaction() as tx:
        tx.conn.execute(text("DELETE FROM run"))


def test_an_image_is_nothing_else(client: TestClient, viewed: Database) -> None:
    assert image_type(SCREEN) == "image/png"
    with viewed.read() as conn:
        hashes = [row[0].hex() for row in conn.execute(text("SELECT hash FROM blob"))]
    kinds = {name: client.get(f"/images/{name}") for name in hashes}
    assert {one.status_code for one in kinds.values()} == {200, 404}
    for one in kinds.values():
        assert one.status_code == 404 or one.headers["content-type"] == "image/png"


def test_a_search_for_an_id_leads_to_its_page(client: TestClient) -> None:
    for name, path in (("r", "/runs/r"), ("a", "/groups/a"), ("b-0", "/trajectories/b-0")):
        assert client.get("/api/search", params={"q": f" {name} "}).json()["named"] == path
        assert f'Open <a href="{path}">{name}</a>' in client.get("/search", params={"q": name}).text
    assert client.get("/api/search?q=nothing-like-it").json()["named"] is None


def test_the_metrics_of_runs_are_in_the_format_of_prometheus(client: TestClient, own: Database) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert 'turnwise_run_updates{run="r",kind="train"} 2' in lines
    values = [line for line in lines if not line.startswith("# TYPE ")]
    declared = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert declared == {line.partition("{")[0] for line in values if line}
    assert all(
        re.fullmatch(r'turnwise_run_\w+\{run="[^"]*",kind="\w+"(,status="\w+")?\} [-+.\de]+|', one) for one in values
    )
    assert any(line.startswith("turnwise_run_last_update_timestamp_seconds") for line in lines)
    create_run(own, 'a"b\\c\nd')
    call(own, "finish_run", run='a"b\\c\nd', status="failed", error="lost")
    with client_of(own) as other:
        assert 'turnwise_run_ended_timestamp_seconds{run="a' in other.get("/metrics").text
        assert r'turnwise_run_state{run="a\"b\\c\nd",kind="train",status=' in other.get("/metrics").text
