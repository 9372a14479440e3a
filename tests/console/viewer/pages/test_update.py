"""The page of an update: the weights of its batch, and the groups that are not in it."""

import re
from html import unescape

import numpy as np
import pytest
from turnwise.records import GroupState
from turnwise.store.database import Database
from turnwise.store.operations import BatchItem
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, create_run, group, play_group, play_scored, start, train
from turnwise.trainer.learner.provenance.recipe import SampleDetail, encode_details, importance_weights


def test_a_token_that_the_policy_did_not_sample_has_no_importance_weight() -> None:
    values = [np.array([-0.5, -2.0], np.float16), np.zeros(2, np.float16), np.full(2, np.nan, np.float16)]
    one = SampleDetail(0, 0, 0, np.ones(2, np.float32), np.ones(2, np.float32), np.array([1, 0], np.uint8), *values)
    assert importance_weights([one], ["expert", "policy"]) == pytest.approx([np.exp(-0.5)])
    assert importance_weights([one], ["expert"]).size == 0


def detail(logprob: list[float], proximal: list[float], weights: list[float]) -> bytes:
    size = len(weights)
    changes, further, nan = (np.array(one, np.float16) for one in (logprob, proximal, [np.nan] * size))
    advantages, trained, sources = np.zeros(size, np.float32), np.array(weights, np.float32), np.zeros(size, np.uint8)
    return encode_details([SampleDetail(0, 0, 0, advantages, trained, sources, changes, further, nan)])


def test_a_member_has_the_importance_weights_of_its_trained_tokens(own: Database) -> None:
    start(own)
    play_group(own, "g")
    call(own, "lease_groups", run="r", owner="learner", count=1, timeout_s=60)
    of = detail([0.5, 0.0, 3.0], [-0.5, 1.0, 3.0], [1, 1, 0])
    items = [BatchItem("g-0", 2, 0, 0.5, detail=of), BatchItem("g-1", 0, 0, 0.0)]
    batch = {"owner": "learner", "groups": ["g"], "items": items, "metrics": {}, "recipe": {"sources": ["policy"]}}
    call(own, "acknowledge", run="r", update=1, parent=0, **batch)
    client = client_of(own)
    first, second = client.get("/api/runs/r/updates/1").json()["groups"][0]["members"]
    assert (first["mean_weight"], first["max_weight"]) == (pytest.approx((1 + np.e) / 2), pytest.approx(np.e))
    assert (second["mean_weight"], first["item"]["detail"], first["item"]["tokens_trained"]) == (None, None, 2)
    page = client.get("/runs/r/updates/1").text
    assert "/trajectories/g-0?view=tokens&amp;shade=advantage" in page


def test_an_update_names_the_groups_that_are_not_in_its_batch(own: Database) -> None:
    start(own)
    play_scored(own, "before", 0, [1.0, 1.0], GroupState.FILTERED)
    play_scored(own, "a", 1, [1.0, 0.0])
    train(own, ["a"], 1, 0)
    play_scored(own, "flat", 2, [1.0, 1.0], GroupState.FILTERED)
    call(own, "open_group", group=group("lost"))
    call(own, "close_group", group="lost", state=GroupState.FAILED, reason="too few members")
    for number, name in enumerate(("b", "c"), 3):
        play_scored(own, name, number, [1.0, 0.0])
    batch = {"owner": "learner", "items": [], "metrics": {}}
    for update, name in ((2, "b"), (3, "c")):
        call(own, "lease_groups", run="r", owner="learner", count=1, timeout_s=60)
        call(own, "acknowledge", run="r", update=update, parent=update - 1, groups=[name], **batch)
    client = client_of(own)
    pages = [client.get(f"/api/runs/r/updates/{update}").json() for update in (1, 2, 3)]
    found = [[(one["state"], one["reason"], one["example"]) for one in page["left_out"]] for page in pages]
    failed = ("failed", "too few members", "lost")
    assert found == [[("filtered", "", "before")], [failed, ("filtered", "", "flat")], []]
    links = re.findall(r'href="(/runs/r/groups[?]state=[^"]*)"', client.get("/runs/r/updates/2").text)
    listed = [client.get(f"/api{unescape(link)}").json()["groups"] for link in links]
    assert [[one["group"]["id"] for one in groups] for groups in listed] == [["lost"], ["flat"]]
    assert "Closed after" in client.get(unescape(links[0])).text
    assert [one["group"]["id"] for one in client.get("/api/runs/r/groups?update=1").json()["groups"]] == ["a", "before"]
    assert client.get("/runs/r/groups?update=9").status_code == 404
    assert [page["waiting"] for page in pages] == [0, 1, 0]
    assert "no group was filtered, expired or failed" in client_of(own).get("/runs/r/updates/3").text


def test_weights_are_named_by_the_update_that_made_them(own: Database) -> None:
    create_run(own)
    for update, parent in ((-1, None), (0, 0)):
        call(own, "add_version", run="r", update=update, parent=parent)
    play_scored(own, "a", 1, [1.0, 0.0], version=1)
    train(own, ["a"], 1, 1)
    client = client_of(own)
    page, episode = client.get("/api/runs/r/updates/1").json(), client.get("/api/trajectories/a-0").json()
    assert page["made_by"] == episode["made_by"] == {"1": 0}
    assert client.get("/api/trajectories?run=r").json()["made_by"] == {"r": {"1": 0}}
    assert '<span title="version 1">0</span>' in client.get("/runs/r/updates/1").text
    assert '<span title="version 1 of the weights">after update 0</span>' in client.get("/trajectories/a-0").text


def test_an_update_without_a_gradient_is_loud_and_the_metrics_of_components_are_shown(own: Database) -> None:
    start(own)
    for update, name in enumerate(("a", "b", "c")):
        play_scored(own, name, update, [1.0, 0.0], version=update)
        call(own, "lease_groups", run="r", owner="learner", count=1, timeout_s=60)
        metrics = {"loss/dropped": update / 2, "sample_filters.0/kept": 0.25, "loss": 0.0, "turns_per_episode": 1.0}
        items = [BatchItem(f"{name}-{member}", 4 if name == "a" else 0, 0, 0.0) for member in range(2)]
        batch = {"owner": "learner", "groups": [name], "items": items, "metrics": metrics}
        call(own, "acknowledge", run="r", update=update + 1, parent=update, **batch)
    for number, returns in enumerate(([1.0, 1.0], [0.0, 0.0], [0.0, 0.0]), 3):
        verdicts = [bool(one) for one in returns]
        play_scored(own, f"f{number}", number, returns, GroupState.FILTERED, version=3, verdicts=verdicts)
    client = client_of(own)
    loud, quiet = client.get("/runs/r/updates/2").text, client.get("/runs/r/updates/1").text
    assert "This update trained on nothing: its gradient is 0" in loud
    assert "trained on nothing" not in quiet
    assert "<dt><code>loss/dropped</code></dt><dd>0.5</dd>" in loud
    assert "2 updates trained on nothing" in client.get("/runs/r").text
    assert client.get("/api/runs/r/now").json()["tokens"] == 8
    charts = {one["title"]: one["lines"] for one in client.get("/api/runs/r/series").json()["charts"]}
    assert charts["loss"] == [{"metric": "loss/dropped", "label": "loss/dropped"}]
    assert charts["sample_filters"] == [{"metric": "sample_filters.0/kept", "label": "sample_filters.0/kept"}]
    (filtered,) = client.get("/api/runs/r/failures").json()["filtered"]
    assert (filtered["groups"], filtered["solved"], filtered["unsolved"]) == (3, 1, 2)
