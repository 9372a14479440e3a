"""Episodes become valid documents, and documents of turnwise and of other programs become episodes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from turnwise.records import Source, Status
from turnwise.store.errors import ExchangeError
from turnwise.store.exchange.atif.documents import AtifFolder
from turnwise.store.exchange.atif.models import Document
from turnwise.store.exchange.atif.origin import KEY, TaskOrigin
from turnwise.store.exchange.atif.reading import read_atif
from turnwise.store.exchange.episodes import Episode
from turnwise.tests.store.exchange.atif.test_models import changed
from turnwise.tests.store.exchange.making import PICTURE_HASH, context, episode, plain, sampled

TASK = TaskOrigin(env_id="turnwise/TextSite-v0", env_version="0", seed=3, split="train", options={})


def exported(folder: Path, *episodes: Episode, system: str = "Rules.") -> Path:
    out = folder / "out"
    writer = AtifFolder(out, lambda group: system)
    for one in episodes:
        writer.add(one)
    writer.close()
    return out


def document(folder: Path, one: Episode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((exported(folder, one) / f"{one.uid}.json").read_text())
    Document.model_validate_json(json.dumps(found))
    return found


def test_a_document_holds_the_turns_of_an_episode(tmp_path: Path) -> None:
    found = document(tmp_path, episode())
    assert found["schema_version"] == "ATIF-v1.8"
    assert [step["source"] for step in found["steps"]] == ["system", "user", "agent", "agent"]
    assert found["steps"][0]["message"] == "Be brief.\n\nRules."
    first, last = found["steps"][2:]
    assert first["message"] == 'click "next"'
    assert first["observation"] == {"results": [{"content": "page two"}]}
    assert first["metrics"]["prompt_token_ids"] == [1, 2, 3]
    assert first["metrics"]["completion_token_ids"] == [5, 6]
    assert first["metrics"]["logprobs"] == [float(np.float32(-1 / 3)), float(np.float32(-2 / 3))]
    assert last["metrics"]["prompt_token_ids"] == [1, 2, 3, 5, 6, 8]
    assert last["observation"]["results"][0]["content"][0]["text"] == "the end"
    assert found["final_metrics"]["total_completion_tokens"] == 4
    assert found["final_metrics"]["extra"]["success"] is True
    image = found["steps"][1]["message"][1]["source"]
    assert image == {"media_type": "image/png", "path": f"images/{PICTURE_HASH}.png"}
    assert (tmp_path / "out" / image["path"]).exists()


def test_two_calls_in_a_turn_have_no_token_ids(tmp_path: Path) -> None:
    one = episode().trajectory
    messages = [context(0, None, [1]), sampled(1, 0, [2]), context(2, 1, [3]), sampled(3, 2, [4, 5])]
    steps = (replace(one.steps[0], message=3),)
    found = document(tmp_path, replace(episode(), trajectory=replace(one, steps=steps, messages=messages)))
    assert found["steps"][-1]["metrics"] == {"completion_tokens": 3}
    assert found["steps"][-1]["llm_call_count"] == 2


def test_an_episode_returns_from_its_document(tmp_path: Path) -> None:
    given = [episode(0), episode(1, images=False, messages=(), source=Source.EXPERT, policy="oracle")]
    returned = {one.uid: one for one in read_atif(exported(tmp_path, *given), None)}
    for one in given:
        got, before, after = returned[one.uid], one.trajectory, returned[one.uid].trajectory
        assert got.final_observation == "the end"
        assert got.images == one.images
        assert replace(got.group, task=one.group.task, size=2, state=one.group.state) == one.group
        texts = [replace(step, observation=step.observation.replace("\ud800", "?")) for step in before.steps]
        kept = [replace(step, message=ours.message) for step, ours in zip(texts, after.steps, strict=True)]
        assert plain(after.steps) == plain(kept)
        assert plain(replace(after, steps=(), messages=())) == plain(replace(before, steps=(), messages=()))
    assert returned[given[1].uid].trajectory.messages == ()
    tokens = returned[given[0].uid].trajectory.messages
    assert [(list(one.tokens), one.parent, one.source) for one in tokens] == [
        ([1, 2, 3], None, Source.TEMPLATE),
        ([5, 6], 0, Source.EXPERT),
        ([8], 1, Source.ENV),
        ([9, 2], 2, Source.EXPERT),
    ]
    assert [step.message for step in returned[given[0].uid].trajectory.steps] == [1, 3]


def test_an_episode_without_a_turn_returns_from_its_document(tmp_path: Path) -> None:
    ended: dict[str, Any] = {"status": Status.ENV_ERROR, "error": "broken", "final_observation_hash": ""}
    one = episode(steps=(), messages=(), final_images=(), **ended)
    found = document(tmp_path, replace(one, final_observation=None))
    assert found["steps"][-1] == {"step_id": 2, "source": "user", "message": ""}
    (returned,) = read_atif(tmp_path / "out", None)
    assert (returned.final_observation, returned.trajectory.steps) == (None, ())
    assert plain(returned.trajectory) == plain(one.trajectory)


def test_a_document_of_before_the_recorded_limits_returns(tmp_path: Path) -> None:
    found = document(tmp_path, episode())
    del found["extra"][KEY]["reached"]
    for step in found["steps"]:
        step.get("extra", {}).get(KEY, {}).pop("cut_by", None)
    (tmp_path / "out" / f"{episode().uid}.json").write_text(json.dumps(found))
    (returned,) = read_atif(tmp_path / "out", None)
    assert (returned.trajectory.reached, {step.cut_by for step in returned.trajectory.steps}) == (None, {None})


def test_a_document_of_another_program_without_a_turn_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps(changed(lambda d: d.update(steps=d["steps"][:1]))))
    with pytest.raises(ExchangeError, match="it has no turn of an agent"):
        list(read_atif(path, TASK))


def test_a_document_of_another_program_is_an_episode_of_the_given_task(tmp_path: Path) -> None:
    def text_only(one: dict[str, Any]) -> None:
        one["steps"][1]["message"] = "look"

    path = tmp_path / "foreign.jsonl"
    path.write_text("\n".join(json.dumps(changed(text_only)) for _ in range(2)) + "\n")
    first, second = read_atif(path, TASK)
    one = first.trajectory
    assert (one.source, one.status, one.policy, one.reward, one.success) == ("expert", "completed", "a", 1.0, None)
    assert first.group.task.seed == 3
    assert first.final_observation == "ok"
    (step,) = one.steps
    assert step.observation == "look"
    assert step.action == '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    assert [list(message.tokens) for message in one.messages] == [[1, 2, 3], [4, 5]]
    assert first.uid == second.uid


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not ATIF: `the document`: Invalid JSON"),
        ("[]", "is not ATIF"),
        (json.dumps(changed(lambda d: d["agent"].update(x=1))), r"`agent\.x`: unknown key"),
        (json.dumps(changed(lambda d: d["steps"][1]["message"].pop(1))), "it contains audio"),
        (json.dumps(changed(lambda d: d["steps"][1].update(message=[d["steps"][1]["message"][1]]))), "does not exist"),
        (
            json.dumps(changed(lambda d: (d["steps"][1].update(message=""), d["extra"].update(turnwise={"uid": 1})))),
            r"`extra\.turnwise\.uid`",
        ),
    ],
)
def test_a_document_that_cannot_be_read_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ExchangeError, match=r"a\.json.*" + reason):
        list(read_atif(tmp_path / "a.json", TASK))


@pytest.mark.parametrize(
    ("totals", "result"),
    [
        ({"reward": 1, "success": False}, (1.0, False)),
        ({"reward": 0.25, "success": True}, (0.25, True)),
        ({"reward": True, "success": 1}, (0.0, None)),
        ({}, (0.0, None)),
    ],
)
def test_the_totals_of_another_program_give_reward_and_verdict(
    tmp_path: Path, totals: dict[str, Any], result: tuple[float, bool | None]
) -> None:
    def change(one: dict[str, Any]) -> None:
        one["steps"][1]["message"] = "look"
        one["final_metrics"]["extra"] = totals

    (tmp_path / "a.json").write_text(json.dumps(changed(change)))
    (one,) = read_atif(tmp_path / "a.json", TASK)
    assert (one.trajectory.reward, one.trajectory.success) == result


@pytest.mark.parametrize("digits", ["1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 5000])
def test_a_reward_beyond_every_number_is_named(tmp_path: Path, digits: str) -> None:
    def change(one: dict[str, Any]) -> None:
        one["steps"][1]["message"] = "look"
        one["final_metrics"]["extra"]["reward"] = "DIGITS"

    (tmp_path / "a.json").write_text(json.dumps(changed(change)).replace('"DIGITS"', digits))
    with pytest.raises(ExchangeError, match=r"a\.json") as caught:
        list(read_atif(tmp_path / "a.json", TASK))
    assert len(str(caught.value)) < 300


def test_a_document_without_a_task_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(changed(lambda d: d["steps"][1].update(message="x"))))
    with pytest.raises(ExchangeError, match="names no environment of turnwise: add `--env ID`"):
        list(read_atif(tmp_path / "a.json", None))


@pytest.mark.parametrize("path", ["../secret.png", "/etc/hostname", "link.png"])
def test_an_image_outside_of_the_folder_is_not_read(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(episode().images[PICTURE_HASH])
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    part = {"type": "image", "source": {"media_type": "image/png", "path": path}}
    (folder / "a.json").write_text(json.dumps(changed(lambda d: d["steps"][1].update(message=[part]))))
    with pytest.raises(ExchangeError, match="is outside of the folder of its document"):
        list(read_atif(folder, TASK))
