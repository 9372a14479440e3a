"""An episode as a page of its own: all of its turns, no script, no address, no secret; and the downloads."""

import json
import re
import resource
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import gettempdir
from zipfile import ZipFile

import pytest
from starlette.testclient import TestClient
from turnwise.console.episodes import load_facts
from turnwise.console.viewer import document
from turnwise.store.content.blobs import digest
from turnwise.store.database import Database
from turnwise.store.exchange.atif.models import Document
from turnwise.store.exchange.episodes import read_episodes
from turnwise.tests.agents.pictures import READABLE
from turnwise.tests.console.conftest import Turnwise
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.console.viewer.test_security import ACTING, HOSTILE, PLAIN, Structure, write
from turnwise.tests.store.maintenance.populated import SCREEN
from turnwise.tests.store.making import play_scored, start

ODD = "100 %"
"""A text with it belongs to the run ``odd name``."""


def page_of(client: TestClient, trajectory: str) -> str:
    answer = client.get(f"/trajectories/{trajectory}/download/html")
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_page_holds_the_whole_episode(client: TestClient) -> None:
    page = page_of(client, "a-0")
    assert page.startswith("<!doctype html>")
    assert page.count('<li id="turn-') == 2
    assert "click 1" in page
    assert f'<img src="data:image/png;base64,{b64encode(SCREEN).decode()}"' in page
    assert "a long page " * 400 in page
    assert "cut by " in page
    assert "update 1 of run r: 4 tokens" in page_of(client, "b-0")


def test_a_page_runs_and_loads_nothing(client: TestClient) -> None:
    page = page_of(client, "a-0")
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    hashed = b64encode(sha256(style[0].encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    found = Structure(page)
    assert {tag[0] for tag in found.tags}.isdisjoint({"script", "iframe", "form", "object", "base"})
    assert {re.split(r"[:\d]", address)[0] for address in found.addresses} == {"data", "#turn-"}
    assert not {name for tag in found.tags for name in tag[1:]} & {"style", "onload", "onerror"}


def test_a_hostile_text_changes_no_markup(own: Database) -> None:
    write(own, PLAIN)
    write(own, ODD + "  ".join(HOSTILE[:-1]))
    with client_of(own) as client:
        plain = Structure(page_of(client, f"{PLAIN}:filtered"))
        page = page_of(client, "odd name:filtered")
    assert Structure(page).tags == plain.tags
    assert not ACTING.intersection(page)


def test_pictures_above_the_limit_are_named(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "IMAGE_BYTES_MAX", len(SCREEN))
    page = page_of(client, "a-0")
    assert page.count(b64encode(SCREEN).decode()) == page.count("<img") > 0
    assert "is not in this file]" in page


def test_the_pictures_of_a_page_are_those_of_the_store_byte_for_byte(own: Database) -> None:
    write(own, PLAIN)
    (episode,) = read_episodes(own, [f"{PLAIN}:filtered"])
    whole = document.episode_document(episode, load_facts(own, episode.trajectory))
    contents = {digest(one): one for one in READABLE.values()}
    turn = replace(whole.turns[0], images=list(contents))
    page = "".join(document.html_page(replace(whole, turns=[turn]), contents))
    embedded = [b64decode(one) for one in re.findall(r'<img src="data:image/png;base64,([^"]+)"', page)]
    assert embedded == list(contents.values())


def test_a_picture_of_many_turns_is_embedded_once(own: Database) -> None:
    write(own, PLAIN)
    (episode,) = read_episodes(own, [f"{PLAIN}:filtered"])
    whole = document.episode_document(episode, load_facts(own, episode.trajectory))
    turn = replace(whole.turns[0], images=[digest(SCREEN)])
    turns = [replace(turn, step=replace(turn.step, index=index)) for index in range(50)]
    page = "".join(document.html_page(replace(whole, turns=turns), {digest(SCREEN): SCREEN}))
    assert page.count("<img") == 1
    assert page.count('<a href="#turn-0">picture of turn 0</a> again]') == 49


def test_no_secret_is_in_a_download(own: Database) -> None:
    write(own, f"{ODD} log in with password=hunter2hunter2")
    client = client_of(own)
    for kind in ("html", "json", "atif"):
        text = client.get(f"/trajectories/odd name:filtered/download/{kind}").text
        assert ("***" in text, "hunter2" in text) == (True, False), kind


@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [
        ("html", "b-0.html", "text/html; charset=utf-8"),
        ("json", "b-0.json", "application/json"),
        ("atif", "b-0.json", "application/json"),
    ],
)
def test_a_download_is_an_attachment_of_a_fixed_type(client: TestClient, kind: str, name: str, type_: str) -> None:
    answer = client.get(f"/trajectories/b-0/download/{kind}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["content-type"] == type_
    assert "sandbox" in answer.headers["content-security-policy"]
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_the_json_has_the_turns_and_the_atif_is_valid(client: TestClient) -> None:
    whole = json.loads(client.get("/trajectories/b-0/download/json").content)
    assert [(turn["step"]["action"], turn["facts"]["versions"]) for turn in whole["turns"]] == [("click 0", [0])]
    plain = Document.model_validate_json(client.get("/trajectories/b-0/download/atif").content)
    assert plain.trajectory_id == whole["uid"]
    packed = client.get("/trajectories/a-0/download/atif")
    assert packed.headers["content-type"] == "application/zip"
    with ZipFile(BytesIO(packed.content)) as archive:
        assert f"images/{digest(SCREEN)}.png" in archive.namelist()


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/trajectories/open-0/download/html", 409, "is still running"),
        ("/trajectories/none/download/html", 404, "no trajectory none"),
        ("/trajectories/a-0/download/exe", 400, "there is no download"),
    ],
)
def test_an_episode_that_cannot_be_downloaded_is_one_sentence(
    client: TestClient, path: str, status: int, message: str
) -> None:
    answer = client.get(path)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert "content-disposition" not in answer.headers


def test_the_command_writes_a_page_or_a_folder_of_pages(turnwise: Turnwise, own: Database, tmp_path: Path) -> None:
    start(own)
    play_scored(own, "g", 0, [1.0, 0.0])
    store = str(own.engine.url)
    export = ["trajectories", "export", "--format", "html", "--store", store, "--out"]
    assert turnwise(*export, str(tmp_path / "x.html"), "g-0").code == 0
    assert "<h1>Episode" in (tmp_path / "x.html").read_text()
    assert turnwise(*export, str(tmp_path / "pages")).code == 0
    assert len(list((tmp_path / "pages").glob("*.html"))) == 2
    both = turnwise(*export, str(tmp_path / "y.html"))
    assert (both.code, "holds one trajectory" in both.err, (tmp_path / "y.html").exists()) == (2, True, False)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let no file of this process become larger than 100 bytes."""
    own = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, own[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, own)


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("kind", ["html", "atif", "json"])
def test_a_full_disk_is_named_without_a_path(client: TestClient, kind: str) -> None:
    answer = client.get(f"/trajectories/a-0/download/{kind}")
    assert answer.status_code == 507
    assert "cannot be written to a temporary file: File too large; free space" in answer.text
    assert gettempdir() not in answer.text
