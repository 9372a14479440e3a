"""No secret leaves the store: in no text of an episode, and not in the tokens that spell it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from turnwise.store.exchange.parquet import to_row
from turnwise.store.exchange.scrubbing import scrub
from turnwise.tests.store.exchange.making import episode, plain

SECRET = "sk-" + "a1B2" * 8


def with_secret(place: str) -> Any:
    one = episode()
    trajectory = one.trajectory
    step = trajectory.steps[0]
    text = f"the key is {SECRET}."
    changes: dict[str, Any] = {
        "observation": lambda: replace(
            one, trajectory=replace(trajectory, steps=[replace(step, observation=text), *trajectory.steps[1:]])
        ),
        "action": lambda: replace(
            one, trajectory=replace(trajectory, steps=[replace(step, action=text), *trajectory.steps[1:]])
        ),
        "state_key": lambda: replace(
            one, trajectory=replace(trajectory, steps=[replace(step, state_key=text), *trajectory.steps[1:]])
        ),
        "error": lambda: replace(one, trajectory=replace(trajectory, error=text)),
        "stop_reason": lambda: replace(one, trajectory=replace(trajectory, stop_reason=text)),
        "policy": lambda: replace(one, trajectory=replace(trajectory, policy=text)),
        "extras": lambda: replace(one, trajectory=replace(trajectory, extras={"log": [{text: text}]})),
        "options": lambda: replace(one, group=replace(one.group, task=replace(one.group.task, options={"k": text}))),
        "prompt_prefix": lambda: replace(one, group=replace(one.group, prompt_prefix=text)),
        "final_observation": lambda: replace(one, final_observation=text),
    }
    return changes[place]()


PLACES = (
    *("observation", "action", "state_key", "prompt_prefix"),
    *("error", "stop_reason", "policy", "extras", "options", "final_observation"),
)


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_replaced_wherever_it_is(place: str) -> None:
    given = with_secret(place)
    clean, found = scrub(given)
    assert found
    row = str(to_row(clean))
    assert SECRET not in row
    assert "the key is ***." in row
    assert len(clean.trajectory.messages) == 0, "the tokens may spell it"
    assert clean.trajectory.steps[0].message is None
    assert scrub(clean) == (clean, False)


def test_a_value_is_a_secret_by_its_name() -> None:
    one = episode()
    options = {"login": {"password": "hunter2hunter2", "user": "bob"}, "passwords": ["a"], "token": "short"}
    clean, found = scrub(replace(one, group=replace(one.group, task=replace(one.group.task, options=options))))
    assert found
    assert clean.group.task.options == {**options, "login": {"password": "***", "user": "bob"}}
    assert scrub(clean) == (clean, False)


def test_an_observation_with_a_secret_gets_the_hash_of_its_new_text() -> None:
    given = with_secret("observation")
    clean, _ = scrub(given)
    before, after = given.trajectory.steps[0], clean.trajectory.steps[0]
    assert before.observation_hash != after.observation_hash
    assert len(before.observation_hash) == len(after.observation_hash)
    last, _ = scrub(with_secret("final_observation"))
    assert last.trajectory.final_observation_hash != given.trajectory.final_observation_hash


def test_an_episode_without_a_secret_stays_as_it_is() -> None:
    given = episode()
    clean, found = scrub(given)
    assert not found
    assert plain(clean) == plain(given)
    assert json.dumps(str(to_row(given))) == json.dumps(str(to_row(clean)))
